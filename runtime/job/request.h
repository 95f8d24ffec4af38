// One input line, understood: what goes to the scheduler and what the answer needs later.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/schedule/scheduler.h"

namespace headrace {

enum class Endpoint : std::uint8_t { kCompletions, kChat };

struct Prompt {
  std::vector<TokenId> tokens;
  std::string text;    // only where the answer echoes it
  int max_tokens = 0;  // generated at most, already cut to what the context leaves
};

struct Request {
  std::int64_t ordinal = 0;  // of its line in the job
  std::int64_t line = 0;     // its line number, from 1
  std::optional<std::string> custom_id;
  Endpoint endpoint = Endpoint::kCompletions;

  std::vector<Prompt> prompts;
  int n = 1;                            // choices a prompt
  SamplingParams params;                // of choice 0; see AnswerBuilder::sequence()
  std::vector<TokenId> stop_token_ids;  // the request's own and the end-of-sequence ids, ascending
  std::vector<TokenId> end_ids;         // those of them that give no stop_reason, ascending
  std::vector<std::string> stop;
  int priority = 0;

  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  bool echo = false;
  bool return_token_ids = false;
  int num_logprobs = -1;         // shown with the choices; -1: none
  int num_prompt_logprobs = -1;  // shown as prompt_logprobs; -1: none

  int num_choices() const { return static_cast<int>(prompts.size()) * n; }
  const Prompt& prompt_of(int choice) const {
    return prompts[static_cast<std::size_t>(choice / n)];
  }
};

/// Why a line has no answer.
struct LineError {
  std::string code;     // invalid_json, invalid_request, unsupported, context_length_exceeded, ...
  std::string message;  // valid UTF-8
};

}  // namespace headrace
