// The body of an answer as OpenAI's API and vLLM write it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/job/answer_builder.h"

namespace headrace {

/// Everything a body shows.
struct Answer {
  const Request& request;
  const AnswerContext& context;
  std::span<const ChoiceDecoder> choices;
  std::span<const std::vector<ScoredToken>> prompt_scores;  // one list a prompt
};

/// Appends the "body" object.
void append_body(std::string& out, const Answer& answer);

/// "batch_req_", "req_", "cmpl-", "chatcmpl-" before 32 hexadecimal digits of job key and line.
std::string line_id(std::string_view prefix, Hash128 job_key, std::int64_t line);

}  // namespace headrace
