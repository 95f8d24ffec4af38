#include "model/families/gguf_rope.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "model/checkpoint/appearance.h"

namespace headrace {
namespace {

// The rope keys of one architecture in one file.
class RopeKeys {
 public:
  RopeKeys(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(prefix) {}

  double number(std::string_view key, double otherwise) const {
    const double value = file_.number(full(key)).value_or(otherwise);
    if (!std::isfinite(value)) refuse(key, "a finite number is accepted");
    return value;
  }

  std::string text(std::string_view key, std::string_view otherwise) const {
    const std::string* value = file_.string(full(key));
    return value == nullptr ? std::string(otherwise) : *value;
  }

  std::int64_t integer(std::string_view key, std::int64_t otherwise) const {
    const std::int64_t value = file_.integer(full(key)).value_or(otherwise);
    if (value < 1 || value > std::numeric_limits<int>::max()) {
      refuse(key,
             fmt::format("an integer from 1 to {} is accepted", std::numeric_limits<int>::max()));
    }
    return value;
  }

  // For keys that would change the frequencies in a way RopeConfig does not have.
  void require(std::string_view key, double neutral) const {
    if (number(key, neutral) != neutral) refuse(key, fmt::format("only {} is supported", neutral));
  }

  [[noreturn]] void refuse(std::string_view key, const std::string& accepted) const {
    throw std::invalid_argument(fmt::format("{}: {} has an unsupported value; {}",
                                            file_.files().front().string(), full(key), accepted));
  }

 private:
  std::string full(std::string_view key) const { return fmt::format("{}rope.{}", prefix_, key); }

  const GgufFile& file_;
  std::string prefix_;
};

void read_yarn(const RopeKeys& keys, int max_position_embeddings, RopeConfig& rope) {
  keys.require("scaling.yarn_ext_factor", 1.0);
  keys.require("scaling.yarn_attn_factor", 1.0);
  keys.require("scaling.yarn_log_multiplier", 0.0);
  rope.scaling = RopeConfig::Scaling::kYarn;
  rope.original_max_position_embeddings =
      static_cast<int>(keys.integer("scaling.original_context_length", max_position_embeddings));
  // llama.cpp multiplies the amplitude that follows from the factor by attn_factor.
  const double amplitude = rope.factor <= 1.0 ? 1.0 : 1.0 + 0.1 * std::log(rope.factor);
  rope.attention_factor = amplitude * keys.number("scaling.attn_factor", 1.0);
  rope.beta_fast = keys.number("scaling.yarn_beta_fast", 32.0);
  rope.beta_slow = keys.number("scaling.yarn_beta_slow", 1.0);
  if (rope.beta_fast <= 0) keys.refuse("scaling.yarn_beta_fast", "a number above 0 is accepted");
  if (rope.beta_slow <= 0) keys.refuse("scaling.yarn_beta_slow", "a number above 0 is accepted");
}

}  // namespace

RopeConfig rope_from_gguf(const GgufFile& file, std::string_view prefix, int head_dim,
                          int max_position_embeddings) {
  const RopeKeys keys(file, prefix);
  RopeConfig rope;
  rope.theta = keys.number("freq_base", 10000.0);
  if (rope.theta <= 1.0) keys.refuse("freq_base", "a number above 1 is accepted");

  const std::int64_t rotary_dim = keys.integer("dimension_count", head_dim);
  if (rotary_dim > head_dim || rotary_dim % 2 != 0) {
    keys.refuse("dimension_count",
                fmt::format("an even number up to the head's {} is accepted", head_dim));
  }
  rope.rotary_dim = static_cast<int>(rotary_dim);

  // Files from before rope.scaling.* have a linear scale under this key.
  const double old_scale = keys.number("scale_linear", 1.0);
  const std::string type = keys.text("scaling.type", old_scale == 1.0 ? "none" : "linear");
  rope.factor = keys.number("scaling.factor", old_scale);
  if (rope.factor == 0.0) rope.factor = 1.0;  // how llama.cpp writes "no scaling"
  if (rope.factor < 0.0) keys.refuse("scaling.factor", "a number above 0 is accepted");
  if (type == "none") {
    rope.factor = 1.0;
  } else if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::kLinear;
  } else if (type == "yarn") {
    read_yarn(keys, max_position_embeddings, rope);
  } else {
    throw std::invalid_argument(
        fmt::format("{}: {}rope.scaling.type is {}; supported: none, linear, yarn",
                    file.files().front().string(), prefix, in_quotes(type)));
  }
  return rope;
}

}  // namespace headrace
