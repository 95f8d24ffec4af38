#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/checkpoint/json_object.h"
#include "model/config.h"
#include "model/families/rope_parameters.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

nlohmann::json golden(const char* name) {
  return nlohmann::json::parse(
      model_files::read_file(std::string("tests/data/checkpoint/") + name));
}

TEST(Rope, FrequenciesAndAttentionFactorEqualThoseOfTransformers) {
  const nlohmann::json cases = golden("rope.json")["cases"];
  ASSERT_GT(cases.size(), 20U);
  for (const auto& test : cases) {
    const auto name = test["name"].get<std::string>();
    const nlohmann::json& config = test["config"];
    const int head_dim =
        config["hidden_size"].get<int>() / config["num_attention_heads"].get<int>();
    const RopeConfig rope = rope_from_config_json(JsonObject::parse(config.dump(), name), head_dim,
                                                  config["max_position_embeddings"].get<int>());
    EXPECT_DOUBLE_EQ(rope.attention_factor, test["attention_factor"].get<double>()) << name;
    const std::vector<float> frequencies = rope_inverse_frequencies(rope);
    const auto bits = test["inverse_frequencies"].get<std::vector<std::uint32_t>>();
    ASSERT_EQ(frequencies.size(), bits.size()) << name;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(frequencies[i]), bits[i])
          << name << ", pair " << i << ": " << frequencies[i] << " for "
          << std::bit_cast<float>(bits[i]);
    }
  }
}

TEST(Rope, APartOfTheHeadMayTurn) {
  const auto config = JsonObject::parse(R"({"partial_rotary_factor": 0.25})", "config.json");
  const RopeConfig rope = rope_from_config_json(config, 64, 128);
  EXPECT_EQ(rope.rotary_dim, 16);
  EXPECT_EQ(rope_inverse_frequencies(rope).size(), 8U);
}

TEST(Rope, DivisorsDivideTheFrequencies) {
  RopeConfig rope;
  rope.rotary_dim = 8;
  const std::vector<float> plain = rope_inverse_frequencies(rope);
  rope.frequency_divisors = {1.0F, 2.0F, 4.0F, 8.0F};
  const std::vector<float> divided = rope_inverse_frequencies(rope);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(divided[i], plain[i] / rope.frequency_divisors[i]);
  }
}

std::string refusal(const std::string& text) {
  try {
    rope_from_config_json(JsonObject::parse(text, "config.json"), 64, 4096);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

// Phi-3's file spells them as here; the set follows from the length that a sequence may reach.
TEST(Rope, ALongRopeHasTwoSetsOfFrequencies) {
  const auto config = JsonObject::parse(
      R"({"original_max_position_embeddings": 64, "rope_scaling":
          {"type": "longrope", "short_factor": [1, 1.5], "long_factor": [2, 8]}})",
      "config.json");
  const RopeConfig rope = rope_from_config_json(config, 4, 256);
  EXPECT_EQ(rope.scaling, RopeConfig::Scaling::kLong);
  EXPECT_DOUBLE_EQ(rope.attention_factor, std::sqrt(1.0 + std::log(4.0) / std::log(64.0)));
  EXPECT_EQ(rope_length(rope, 64), RopeLength::kShort);
  EXPECT_EQ(rope_length(rope, 65), RopeLength::kLong);
  const std::vector<float> near = rope_inverse_frequencies(rope, RopeLength::kShort);
  const std::vector<float> far = rope_inverse_frequencies(rope, RopeLength::kLong);
  EXPECT_EQ(near, (std::vector<float>{1.0F, 1.0F / 150.0F}));
  EXPECT_EQ(far, (std::vector<float>{0.5F, 1.0F / 800.0F}));
}

TEST(Rope, WhatCannotBeComputedIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"rope_scaling": {"type": "dynamic", "factor": 2}})",
       "rope_scaling.type is \"dynamic\"; supported: default, linear, llama3, yarn"},
      {R"({"rope_parameters": {"rope_type": "proportional"}})",
       "rope_parameters.rope_type is \"proportional\"; supported"},
      {R"({"rope_parameters": {"rope_type": "longrope"}})",
       "rope_parameters.long_factor is absent; a list of 32 numbers above 0"},
      {R"({"rope_parameters": {"rope_type": "longrope", "long_factor": [1, 2]}})",
       "rope_parameters.long_factor is [1,2]; a list of 32 numbers above 0"},
      {R"({"rope_scaling": {"type": "linear"}})", "rope_scaling.factor is absent"},
      {R"({"rope_scaling": {"type": "linear", "factor": 0}})", "rope_scaling.factor is 0"},
      {R"({"rope_scaling": {"type": "linear", "factor": "2"}})", "rope_scaling.factor is \"2\""},
      {R"({"rope_scaling": {"type": "llama3", "factor": 8}})", "low_freq_factor is absent"},
      {R"({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4,
                            "high_freq_factor": 4}})",
       "high_freq_factor is 4; a number above low_freq_factor"},
      {R"({"rope_scaling": {"type": "yarn", "factor": -1}})", "rope_scaling.factor is -1"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2, "truncate": 1}})",
       "rope_scaling.truncate is 1"},
      {R"({"rope_scaling": {"type": "yarn", "factor": 2,
                            "original_max_position_embeddings": 0}})",
       "original_max_position_embeddings is 0"},
      {R"({"rope_scaling": [1]})", "rope_scaling is [1]; an object is accepted"},
      {R"({"rope_theta": 1})", "rope_theta is 1; a number above 1"},
      {R"({"rope_theta": -5})", "rope_theta is -5"},
      {R"({"partial_rotary_factor": 0})", "partial_rotary_factor is 0"},
      {R"({"partial_rotary_factor": 1.5})", "partial_rotary_factor is 1.5"},
      {R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})",
       "rope_parameters.full_attention is an object"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(refusal(text).find(expected), std::string::npos) << text << "\n" << refusal(text);
  }
}

}  // namespace
}  // namespace headrace
