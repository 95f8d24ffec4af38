// Collects what a request's choices yield and writes its output line. Last stop of a token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"
#include "runtime/job/choice_decoder.h"
#include "runtime/job/hash.h"
#include "runtime/job/request.h"

namespace headrace {

/// The same for every line of a job.
struct AnswerContext {
  std::shared_ptr<const Tokenizer> tokenizer;
  Hash128 job_key;
  std::string model;         // served name, or the base name of --model
  std::int64_t created = 0;  // SOURCE_DATE_EPOCH where set
};

/// One thread at a time. The same calls give the same line, whatever the order of the choices.
class AnswerBuilder {
 public:
  /// The context must outlive the builder.
  AnswerBuilder(std::shared_ptr<const Request> request, const AnswerContext& context);

  /// A token of a choice, in order; also tokens saved by an earlier run. Afterwards
  /// choice_done(choice) says whether it ended: by a stop string (then the scheduler must be told), a
  /// stop id or max_tokens. Tokens after the end are dropped: false, and not to be saved.
  bool add(int choice, const ScoredToken& token);

  /// Scores of a prompt's positions from the second on, in order (SequenceEvent::prompt_scores).
  void add_prompt_scores(int choice, std::span<const ScoredToken> scores);

  /// The scheduler's word that a choice ended (needed where max_tokens is 0).
  void end(int choice, FinishReason reason);

  bool choice_done(int choice) const;
  bool done() const { return num_open_ == 0; }

  std::int64_t num_prompt_tokens() const;
  std::int64_t num_completion_tokens() const;
  const Request& request() const { return *request_; }

  /// The output line, without line end. Requires done().
  std::string line() const;

 private:
  std::string body() const;

  std::shared_ptr<const Request> request_;
  const AnswerContext* context_;
  std::vector<ChoiceDecoder> choices_;
  std::vector<std::vector<ScoredToken>> prompt_scores_;  // one a prompt
  int num_open_ = 0;
};

/// The output line of a request without an answer.
struct FailedLine {
  std::int64_t line = 0;
  const std::optional<std::string>& custom_id;
  const LineError& error;
};
std::string failed_line(const FailedLine& failed, Hash128 job_key);

/// "batch_req_..." of a line: what an output line begins with.
std::string batch_request_id(Hash128 job_key, std::int64_t line);

/// Whether an output line, as line() and failed_line() write it, holds an answer.
bool is_answer(std::string_view output_line);

}  // namespace headrace
