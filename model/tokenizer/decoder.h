// From tokens back to text, as a stream: each step passes on what can no longer change, so a whole
// decode and an incremental one are the same code.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/json_node.h"

namespace headrace {

/// Takes tokens in pieces. A token is any number of text() calls and one end_token(); a piece never
/// cuts a UTF-8 character.
class TokenSink {
 public:
  TokenSink() = default;
  TokenSink(const TokenSink&) = delete;
  TokenSink& operator=(const TokenSink&) = delete;
  virtual ~TokenSink() = default;

  virtual void text(std::string_view piece) = 0;
  virtual void end_token() = 0;
  /// No more tokens: passes on what was held back.
  virtual void finish() = 0;
};

/// One step of a decoder; immutable, makes the state that a stream needs.
class DecoderStep {
 public:
  DecoderStep() = default;
  DecoderStep(const DecoderStep&) = delete;
  DecoderStep& operator=(const DecoderStep&) = delete;
  virtual ~DecoderStep() = default;
  /// next and this step outlive the sink.
  virtual std::unique_ptr<TokenSink> open(TokenSink& next) const = 0;
};

using Decoder = std::vector<std::unique_ptr<const DecoderStep>>;  // a Sequence is flattened

/// Throws std::invalid_argument naming the node for types and values that are not known.
Decoder parse_decoder(const JsonNode& node);

/// What a file without decoder means: tokens with spaces between them.
Decoder joining_decoder();

/// The steps of a decoder at work; appends finished text to a string.
class DecoderChain {
 public:
  DecoderChain(const Decoder& decoder, std::string& out);

  void push(std::string_view token) {
    front_->text(token);
    front_->end_token();
  }
  void finish() { front_->finish(); }

 private:
  std::vector<std::unique_ptr<TokenSink>> sinks_;  // the last step first
  TokenSink* front_;
};

}  // namespace headrace
