// What generation_config.json says about sampling where a request says nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/token.h"

namespace headrace {

/// Fields as vLLM takes them from generation_config.json; do_sample and the rest have no influence.
struct SamplingDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int> max_new_tokens;   // chat requests without max_tokens
  std::vector<TokenId> eos_token_ids;  // ascending
};

/// json: the file's text; name: for messages. Throws std::invalid_argument naming file, key, value.
SamplingDefaults parse_generation_config(std::string_view json, const std::string& name);

/// A part of the job key: equal for defaults that make equal answers.
std::string describe(const SamplingDefaults& defaults);

}  // namespace headrace
