#include "runtime/job/answer_builder.h"

#include <utility>

#include "runtime/job/answer_json.h"
#include "runtime/job/json_text.h"

namespace headrace {
namespace {

constexpr std::string_view kAnswerEnd = R"(,"error":null})";

// What every output line begins with, up to the response.
std::string begin_line(Hash128 job_key, std::int64_t line,
                       const std::optional<std::string>& custom_id) {
  std::string out = "{\"id\":\"" + batch_request_id(job_key, line) + "\",\"custom_id\":";
  if (custom_id) {
    append_json_string(out, *custom_id);
  } else {
    out += "null";
  }
  out += ",\"response\":";
  return out;
}

}  // namespace

AnswerBuilder::AnswerBuilder(std::shared_ptr<const Request> request, const AnswerContext& context)
    : request_(std::move(request)), context_(&context), prompt_scores_(request_->prompts.size()) {
  choices_.reserve(static_cast<std::size_t>(request_->num_choices()));
  for (int i = 0; i < request_->num_choices(); ++i) {
    choices_.emplace_back(*request_, i, context.tokenizer);
    if (request_->prompt_of(i).max_tokens == 0) choices_.back().end(FinishReason::kLength);
  }
}

bool AnswerBuilder::add(int choice, const ScoredToken& token) {
  return choices_[static_cast<std::size_t>(choice)].add(token);
}

void AnswerBuilder::add_prompt_scores(int choice, std::span<const ScoredToken> scores) {
  auto& all = prompt_scores_[static_cast<std::size_t>(choice / request_->n)];
  all.insert(all.end(), scores.begin(), scores.end());
}

void AnswerBuilder::end(int choice, FinishReason reason) {
  choices_[static_cast<std::size_t>(choice)].end(reason);
}

std::optional<NewSequence> AnswerBuilder::sequence(int choice) const {
  if (choice_done(choice)) return std::nullopt;
  const ChoiceDecoder& decoder = choices_[static_cast<std::size_t>(choice)];
  const Prompt& prompt = request_->prompt_of(choice);
  NewSequence sequence;
  sequence.tokens = prompt.tokens;
  sequence.num_prompt_tokens = static_cast<int>(prompt.tokens.size());
  sequence.stop_token_ids = request_->stop_token_ids;
  sequence.priority = request_->priority;
  sequence.params = request_->params;
  sequence.params.choice = static_cast<std::uint32_t>(choice);
  if (choice % request_->n != 0) sequence.params.num_prompt_logprobs = -1;
  if (decoder.finish() != FinishReason::kNone) return sequence;  // scores only
  sequence.max_tokens = prompt.max_tokens;
  for (const ScoredToken& token : decoder.tokens()) sequence.tokens.push_back(token.token);
  return sequence;
}

// The first choice of a prompt brings its scores: one for each position after the first.
bool AnswerBuilder::scores_missing(int choice) const {
  if (request_->params.num_prompt_logprobs < 0 || choice % request_->n != 0) return false;
  const auto prompt = static_cast<std::size_t>(choice / request_->n);
  return prompt_scores_[prompt].size() + 1 < request_->prompts[prompt].tokens.size();
}

bool AnswerBuilder::choice_done(int choice) const {
  return choices_[static_cast<std::size_t>(choice)].finish() != FinishReason::kNone &&
         !scores_missing(choice);
}

bool AnswerBuilder::done() const {
  for (int i = 0; i < request_->num_choices(); ++i) {
    if (!choice_done(i)) return false;
  }
  return true;
}

int AnswerBuilder::num_tokens(int choice) const {
  return static_cast<int>(choices_[static_cast<std::size_t>(choice)].tokens().size());
}

std::int64_t AnswerBuilder::num_prompt_tokens() const {
  std::int64_t count = 0;
  for (const Prompt& prompt : request_->prompts) count += std::ssize(prompt.tokens);
  return count;
}

std::int64_t AnswerBuilder::num_completion_tokens() const {
  std::int64_t count = 0;
  for (const ChoiceDecoder& choice : choices_) count += std::ssize(choice.tokens());
  return count;
}

std::string AnswerBuilder::line() const {
  std::string out = begin_line(context_->job_key, request_->line, request_->custom_id);
  out += R"({"status_code":200,"request_id":")";
  out += line_id("req_", context_->job_key, request_->line);
  out += R"(","body":)";
  append_body(out, {*request_, *context_, choices_, prompt_scores_});
  out += '}';
  out += kAnswerEnd;
  return out;
}

std::string failed_line(const FailedLine& failed, Hash128 job_key) {
  std::string out = begin_line(job_key, failed.line, failed.custom_id);
  out += R"(null,"error":{"code":)";
  append_json_string(out, failed.error.code);
  out += ",\"message\":";
  append_json_string(out, failed.error.message);
  out += ",\"line\":";
  append_json_integer(out, failed.line);
  out += "}}";
  return out;
}

std::string batch_request_id(Hash128 job_key, std::int64_t line) {
  return line_id("batch_req_", job_key, line);
}

bool is_answer(std::string_view output_line) {
  return output_line.ends_with(kAnswerEnd);
}

}  // namespace headrace
