// The fields of a request's body: a table of names, each with its reader. Fields that only exist in
// other servers are accepted with their default and refused by name with anything else.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/token.h"
#include "runtime/job/request.h"

namespace headrace {

/// What a body says; an empty optional where it says nothing. Points into the body.
struct BodyFields {
  const nlohmann::ordered_json* prompt = nullptr;
  const nlohmann::ordered_json* messages = nullptr;
  const nlohmann::ordered_json* tools = nullptr;
  const nlohmann::ordered_json* template_kwargs = nullptr;

  std::optional<std::string> model;
  std::optional<int> max_tokens;
  std::optional<int> max_completion_tokens;
  int min_tokens = 0;
  int n = 1;
  std::optional<int> best_of;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::optional<std::int64_t> seed;
  std::vector<std::pair<TokenId, float>> logit_bias;  // ascending ids
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  std::optional<bool> add_special_tokens;
  bool add_generation_prompt = true;
  bool echo = false;
  bool return_token_ids = false;
  bool chat_logprobs = false;
  int num_logprobs = -1;  // completions' logprobs
  std::optional<int> top_logprobs;
  int num_prompt_logprobs = -1;
  int priority = 0;
};

/// Reads every field of body (an object) or throws LineFailure. envelope: names to leave alone,
/// which belong to the line's own form.
BodyFields read_body(const nlohmann::ordered_json& body, Endpoint endpoint, int vocab_size,
                     const std::vector<std::string_view>& envelope);

}  // namespace headrace
