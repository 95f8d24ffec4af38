// Follows one choice: its tokens, their text, and where it ends.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "model/tokenizer/tokenizer.h"
#include "runtime/job/request.h"

namespace headrace {

/// What ended a choice beyond "an end-of-sequence id": vLLM's stop_reason.
using StopReason = std::variant<std::monostate, TokenId, std::string>;

class ChoiceDecoder {
 public:
  /// request must outlive the decoder.
  ChoiceDecoder(const Request& request, int choice, std::shared_ptr<const Tokenizer> tokenizer);

  /// Takes the next token; false where the choice has ended already. A stop string counts once its
  /// end lies beyond the text of the first min_tokens tokens. Of several, the one that ends first,
  /// then the first in the request's list.
  bool add(const ScoredToken& token);

  /// Ends the choice from outside; nothing where it has ended.
  void end(FinishReason reason);

  FinishReason finish() const { return finish_; }
  const StopReason& stop_reason() const { return stop_reason_; }
  const std::string& text() const { return text_; }
  const std::vector<ScoredToken>& tokens() const { return tokens_; }

 private:
  void append(const std::string& piece);
  bool ends_by_id(TokenId token);
  void close(FinishReason reason);

  const Request* request_;
  int max_tokens_;
  IncrementalDecoder decoder_;
  std::vector<ScoredToken> tokens_;
  std::string text_;
  std::size_t unchecked_ = 0;  // stop strings end beyond this many bytes of text
  FinishReason finish_ = FinishReason::kNone;
  StopReason stop_reason_;
};

}  // namespace headrace
