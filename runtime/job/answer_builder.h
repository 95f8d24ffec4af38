// Collects what a request's choices yield and writes its output line. Last stop of a token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

/// One thread at a time. The same tokens give the same line, whatever the order of the choices.
class AnswerBuilder {
 public:
  /// The context must outlive the builder.
  AnswerBuilder(std::shared_ptr<const Request> request, const AnswerContext& context);

  /// A token of a choice, in order; also, before sequence(), tokens saved by an earlier run. Ask
  /// choice_done() afterwards: a stop string may have ended the choice, and the scheduler must be
  /// told. False for a token after the end: it is dropped, and is not to be saved.
  bool add(int choice, const ScoredToken& token);

  /// Scores of a prompt's positions from the second on, in order (SequenceEvent::prompt_scores).
  void add_prompt_scores(int choice, std::span<const ScoredToken> scores);

  /// The scheduler's word that a choice ended.
  void end(int choice, FinishReason reason);

  /// What the scheduler gets for a choice, its id left 0: prompt and the tokens so far. Nothing
  /// where the choice is done. Prompt scores are asked for with the first choice of each prompt;
  /// where only they are missing, the sequence does nothing but score.
  std::optional<NewSequence> sequence(int choice) const;

  /// The choice has ended and its prompt's scores, if it is to bring them, are complete.
  bool choice_done(int choice) const;
  bool done() const;

  int num_tokens(int choice) const;  // of the choice so far
  std::int64_t num_prompt_tokens() const;
  std::int64_t num_completion_tokens() const;
  const Request& request() const { return *request_; }

  /// The output line, without line end. Requires done().
  std::string line() const;

 private:
  bool scores_missing(int choice) const;

  std::shared_ptr<const Request> request_;
  const AnswerContext* context_;
  std::vector<ChoiceDecoder> choices_;
  std::vector<std::vector<ScoredToken>> prompt_scores_;  // one a prompt
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
