// A text that runs through a model part by part: its passages' hidden states, between two parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/stage_model.h"
#include "model/token.h"

namespace headrace {

/// The token ids of a text, cut into passages of one length that know nothing of each other.
class CalibrationText {
 public:
  CalibrationText(std::vector<TokenId> tokens, int passage_tokens);

  std::int64_t num_tokens() const { return std::ssize(tokens_); }
  int passage_tokens() const { return passage_tokens_; }
  int num_passages() const;
  /// Tokens [begin, end) of the text.
  IndexRange passage(int index) const;
  std::span<const TokenId> tokens(IndexRange range) const;

  /// Room that a part needs for a passage at a time.
  StageSize stage_size(int max_logit_rows) const;

 private:
  std::vector<TokenId> tokens_;
  int passage_tokens_;
};

/// float32 [tokens, hidden].
class HiddenStates {
 public:
  HiddenStates(const CalibrationText& text, int hidden_size);

  /// Runs all passages through a part, in place. One with the embedding begins with the tokens.
  void run(StageModel& part);

  /// Of one passage.
  TensorView passage(int index);
  const std::vector<float>& values() const { return values_; }

 private:
  const CalibrationText& text_;
  int hidden_size_;
  std::vector<float> values_;
};

/// What the head gives for every token of a text but the last of each passage.
struct HeadOutcome {
  std::vector<TokenId> likeliest;
  double log_probability = 0.0;  // of the tokens that do follow, their sum
};
HeadOutcome run_head(StageModel& head, const CalibrationText& text, HiddenStates& hidden);

}  // namespace headrace
