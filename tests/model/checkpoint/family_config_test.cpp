// What the families' pages make of the golden checkpoints' files, and what they refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/json_object.h"
#include "model/families/family.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using nlohmann::json;

const std::filesystem::path kFamilies = "tests/data/golden_families";

json config_of(const std::string& name) {
  return json::parse(model_files::read_file((kFamilies / name / "config.json").string()));
}

ModelConfig map(const json& config) {
  const JsonObject object = JsonObject::parse(config.dump(), "config.json");
  return family_of(object).from_config_json(object);
}

std::string refusal(const json& config) {
  try {
    map(config);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Families, WhatTheDecoderCannotDoIsRefusedByName) {
  struct Case {
    const char* family;
    const char* key;
    json value;
    const char* expected;
  };
  const Case cases[] = {
      {"qwen2",
       "quantization_config",
       {{"quant_method", "awq"}},
       "quantization_config is an object"},
      {"qwen2", "hidden_act", "relu", "hidden_act is \"relu\"; supported: silu"},
      {"qwen2",
       "layer_types",
       {"full_attention", "sliding_attention", "full_attention"},
       "use_sliding_window is false; layer_types has sliding_attention"},
      {"qwen2", "num_key_value_heads", nullptr, "num_key_value_heads is absent; an integer"},
      {"qwen2", "rope_scaling", {{"type", "mrope"}}, "rope_scaling.type is \"mrope\"; supported"},
      {"qwen2_window", "layer_types", {"full_attention"}, "one text for each of 3 layers"},
      {"qwen2_window",
       "layer_types",
       {"full_attention", "linear_attention", "full_attention"},
       "supported: full_attention, sliding_attention"},
      {"qwen2_window", "sliding_window", nullptr,
       "sliding_window is absent; the layers with a window"},
      {"qwen3", "model_type", "qwen3_moe", "model_type is \"qwen3_moe\"; Qwen3ForCausalLM has"},
      {"mistral", "sliding_window", 0, "sliding_window is 0; an integer from 1"},
      {"mistral", "layer_types", {"full_attention"}, "all layers of Mistral models are alike"},
      {"gemma2", "use_bidirectional_attention", true, "only false is supported"},
      {"gemma2", "attn_logit_softcapping", -1, "a number above 0, or null"},
      {"gemma2", "query_pre_attn_scalar", 0, "query_pre_attn_scalar is 0; a number above 0"},
      {"gemma3", "attn_logit_softcapping", 50, "attn_logit_softcapping is 50; only null"},
      {"gemma3", "sliding_window_pattern", 0, "sliding_window_pattern is 0"},
      {"phi3_long", "lm_head_bias", true, "lm_head_bias is true; only false"},
      {"phi3_long", "original_max_position_embeddings", 1, "a long RoPE needs a context above 1"},
      {"smollm3", "no_rope_layers", {1, 0}, "no_rope_layers is [1,0]; 0 or 1 for each of 5 layers"},
      {"smollm3", "no_rope_layers", {1, 0, 2, 1, 1}, "an integer from 0 to 1"},
      {"granite", "logits_scaling", 0, "logits_scaling is 0; a number above 0"},
      {"granite_swa", "layer_rope_theta", {100, 100}, "one number for each of 5 layers"},
      {"granite_swa",
       "layer_rope_theta",
       {0, 100, 90, 100, 50},
       "one number for all layers with a window and one for all others"},
      {"granite_swa", "layer_rope_theta", {0, 0.5, 0, 0, 0}, "numbers above 1, or 0 for none"},
      {"granite_swa", "sliding_window", nullptr, "the layers with a window need an integer"},
      {"gpt2", "scale_attn_by_inverse_layer_idx", true, "only false is supported"},
      {"gpt2", "scale_attn_weights", false, "only true is supported"},
      {"gpt2", "activation_function", "relu", "activation_function is \"relu\""},
      {"neox", "rotary_pct", 1.5, "rotary_pct is 1.5"},
      {"falcon", "alibi", true, "alibi is true; only false"},
      {"falcon", "num_ln_in_parallel_attn", 2, "2 needs new_decoder_architecture"},
      {"falcon_new", "parallel_attn", false, "new_decoder_architecture needs true"},
  };
  for (const Case& test : cases) {
    json config = config_of(test.family);
    config[test.key] = test.value;
    const std::string message = refusal(config);
    EXPECT_NE(message.find(test.expected), std::string::npos)
        << test.family << ", " << test.key << " = " << test.value << "\n"
        << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

// A golden GGUF file with a name in it changed into another of the same length.
std::string gguf_refusal(const std::string& name, const std::string& from, const std::string& to) {
  const model_files::TempDirectory folder;
  std::string bytes = model_files::read_file((kFamilies / name / "model.gguf").string());
  EXPECT_EQ(from.size(), to.size());
  EXPECT_NE(bytes.find(from), std::string::npos) << from;
  for (std::size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size()) {
    bytes.replace(at, to.size(), to);
  }
  model_files::write_file(folder.path() / "model.gguf", bytes);
  try {
    Checkpoint::open(folder.path() / "model.gguf");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Families, GgufFilesWithoutWhatAFamilyNeedsAreRefusedByName) {
  struct Case {
    const char* family;
    const char* from;
    const char* to;
    const char* expected;
  };
  const Case cases[] = {
      {"neox_gguf", "gptneox", "gptneoz",
       "general.architecture is \"gptneoz\"; supported: llama, "},
      {"gemma3_deep_gguf", "attention.sliding_window", "attention.sliding_windox",
       "the key gemma3.attention.sliding_window is missing"},
      {"phi3_long_gguf", "rope_factors_short", "rope_factors_shorx",
       "tensors rope_factors_long.weight and rope_factors_short.weight are needed, both"},
      {"phi3_long_gguf", "scaling.original_context_length", "scaling.original_context_lengtx",
       "the key phi3.rope.scaling.original_context_length is missing"},
      {"qwen3_gguf", "blk.1.attn_q_norm", "blk.1.attn_q_norn",
       "tensor \"blk.1.attn_q_norn.weight\" has no place in a qwen3 model"},
      {"gpt2_gguf", "position_embd", "position_embx",
       "\"position_embx.weight\" has no place in a gpt2"},
      {"falcon_new_gguf", "blk.0.attn_norm_2", "blk.0.attn_norm_3",
       "\"blk.0.attn_norm_3.weight\" has no place in a falcon"},
      {"starcoder2_plain_gguf", "layer_norm_epsilon", "layer_norm_epsiloo",
       "starcoder2.attention.layer_norm_epsilon must be a number"},
  };
  for (const Case& test : cases) {
    const std::string message = gguf_refusal(test.family, test.from, test.to);
    EXPECT_NE(message.find(test.expected), std::string::npos) << test.family << "\n" << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Families, AnAbsentWindowIsWhatTransformersTakes) {
  json config = config_of("mistral");
  config.erase("sliding_window");
  EXPECT_EQ(map(config).window, 4096);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(map(config).window, 0);
  EXPECT_TRUE(map(config).layers.empty());
}

TEST(Families, LayersDifferAsTheFileSays) {
  const ModelConfig gemma = map(config_of("gemma3"));
  std::string kinds;
  for (int i = 0; i < gemma.num_layers; ++i) kinds += gemma.layer(i).windowed ? 'w' : 'g';
  EXPECT_EQ(kinds, "wwgww");
  EXPECT_EQ(gemma.rope.theta, 5000.0);
  EXPECT_EQ(gemma.rope.scaling, RopeConfig::Scaling::kLinear);
  ASSERT_TRUE(gemma.window_rope);
  EXPECT_EQ(gemma.window_rope->theta, 30.0);
  EXPECT_EQ(gemma.window_rope->scaling, RopeConfig::Scaling::kNone);

  const ModelConfig smollm = map(config_of("smollm3"));
  kinds.clear();
  for (int i = 0; i < smollm.num_layers; ++i) kinds += smollm.layer(i).rope ? 'r' : '-';
  EXPECT_EQ(kinds, "r-rr-");
}

TEST(Families, EachLayersThetaIsThatOfItsKind) {
  json config = config_of("granite_swa");
  const ModelConfig granite = map(config);
  std::string kinds;
  for (int i = 0; i < granite.num_layers; ++i) {
    kinds += granite.layer(i).windowed ? 'w' : 'g';
    kinds += granite.layer(i).rope ? 'r' : '-';
  }
  EXPECT_EQ(kinds, "g-wrw-wrgr");
  EXPECT_TRUE(granite.attention_sinks);
  EXPECT_EQ(granite.window, 13);
  EXPECT_EQ(granite.rope.theta, 50.0);
  ASSERT_TRUE(granite.window_rope);
  EXPECT_EQ(granite.window_rope->theta, 100.0);

  config["layer_rope_theta"] = {0, 100, 0, 100, 0};  // no other layer turns
  EXPECT_EQ(map(config).rope.theta, 100.0);
  EXPECT_FALSE(map(config).window_rope);

  config["layer_rope_theta"] = {0, 0, 0, 0, 0};
  for (const LayerTraits& layer : map(config).layers) EXPECT_FALSE(layer.rope);

  config.erase("layer_rope_theta");
  config["rope_theta"] = 300.0;
  const ModelConfig plain = map(config);
  EXPECT_EQ(plain.rope.theta, 300.0);
  EXPECT_FALSE(plain.window_rope);
  for (const LayerTraits& layer : plain.layers) EXPECT_TRUE(layer.rope);
}

// A directory and the GGUF file of the same model say the same.
TEST(Families, BothFormatsGiveTheSameTraits) {
  for (const char* name :
       {"qwen2", "qwen3", "gemma2", "gemma3_deep", "phi3_long", "smollm3_deep", "granite", "olmo2",
        "gpt2", "neox", "starcoder2_plain", "starcoder2", "stablelm", "stablelm_parallel",
        "stablelm_qk", "falcon", "falcon_new", "mistral"}) {
    SCOPED_TRACE(name);
    const ModelConfig a = Checkpoint::open(kFamilies / name)->config();
    const ModelConfig b =
        Checkpoint::open(kFamilies / (std::string(name) + "_gguf") / "model.gguf")->config();
    EXPECT_EQ(a.num_kv_heads, b.num_kv_heads);
    EXPECT_EQ(a.head_dim, b.head_dim);
    EXPECT_EQ(a.intermediate_size, b.intermediate_size);
    EXPECT_EQ(a.tied_head, b.tied_head);
    EXPECT_EQ(a.activation, b.activation);
    EXPECT_EQ(a.qk_norm, b.qk_norm);
    EXPECT_EQ(a.parallel_residual, b.parallel_residual);
    EXPECT_EQ(a.shared_pre_norm, b.shared_pre_norm);
    EXPECT_EQ(a.window, b.window);
    EXPECT_EQ(a.rope.rotary_dim, b.rope.rotary_dim);
    EXPECT_EQ(a.rope.long_divisors, b.rope.long_divisors);
    EXPECT_EQ(a.rope.short_divisors, b.rope.short_divisors);
    EXPECT_FLOAT_EQ(static_cast<float>(a.rope.attention_factor),
                    static_cast<float>(b.rope.attention_factor));
    EXPECT_EQ(a.logit_soft_cap, b.logit_soft_cap);
    EXPECT_EQ(a.logit_scale, b.logit_scale);
    EXPECT_EQ(a.bos_token_id, b.bos_token_id);
    for (int i = 0; i < a.num_layers; ++i) {
      EXPECT_EQ(a.layer(i).windowed, b.layer(i).windowed) << i;
      EXPECT_EQ(a.layer(i).rope, b.layer(i).rope) << i;
    }
  }
}

// Gemma's norms multiply by one more than the file holds; fused and transposed products come apart.
TEST(Families, ReadingUndoesWhatAFileHasChanged) {
  const auto gemma = Checkpoint::open(kFamilies / "gemma2");
  const auto gemma_gguf = Checkpoint::open(kFamilies / "gemma2_gguf" / "model.gguf");
  std::vector<float> norm(20);
  std::vector<float> norm_gguf(20);
  gemma->read_rows("model.norm.weight", 0, 1, norm.data());
  gemma_gguf->read_rows("model.norm.weight", 0, 1, norm_gguf.data());
  EXPECT_EQ(norm, norm_gguf);

  for (const char* name :
       {"gpt2", "neox", "phi3_long", "falcon", "falcon_new", "mistral", "stablelm_qk"}) {
    SCOPED_TRACE(name);
    const auto directory = Checkpoint::open(kFamilies / name);
    const auto gguf = Checkpoint::open(kFamilies / (std::string(name) + "_gguf") / "model.gguf");
    for (const TensorInfo& info : directory->tensors()) {
      ASSERT_TRUE(gguf->has(info.name)) << info.name;
      std::vector<float> whole(static_cast<std::size_t>(info.rows * info.cols));
      std::vector<float> other(whole.size());
      directory->read_rows(info.name, 0, info.rows, whole.data());
      gguf->read_rows(info.name, 0, info.rows, other.data());
      ASSERT_EQ(whole, other) << info.name;
      // A block in the middle is that block of the whole.
      const TensorBlock block{info.rows / 3, info.rows - info.rows / 4, info.cols / 3,
                              info.cols - info.cols / 4};
      std::vector<float> part(static_cast<std::size_t>((block.row_end - block.row_begin) *
                                                       (block.col_end - block.col_begin)));
      directory->read_block(info.name, block, part.data());
      std::size_t at = 0;
      for (std::int64_t r = block.row_begin; r < block.row_end; ++r) {
        for (std::int64_t c = block.col_begin; c < block.col_end; ++c) {
          ASSERT_EQ(part[at++], whole[static_cast<std::size_t>(r * info.cols + c)]) << info.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace headrace
