// The one implementation of Tokenizer: parts that a file describes, joined to a pipeline.
//
//   text -> added tokens -> normalizers -> normalized added tokens -> pre-tokenizers -> word model
//        -> template of special tokens -> ids
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/decoder.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/post_processor.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/vocabulary.h"
#include "model/tokenizer/word_model.h"

namespace headrace {

/// What a file says; each reader fills one of these.
struct TokenizerParts {
  std::shared_ptr<const Vocabulary> vocabulary;  // the model's own tokens
  std::unique_ptr<const WordModel> model;
  std::vector<AddedToken> added;
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  SequenceTemplate sequence_template;
  Decoder decoder;
  std::vector<std::pair<std::string, std::string>> special_texts;  // role ("bos_token"), text
  std::vector<Tokenizer::NamedTemplate> chat_templates;
  std::string fingerprint;
};

class TextTokenizer final : public Tokenizer {
 public:
  explicit TextTokenizer(TokenizerParts parts);
  ~TextTokenizer() override;

  std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const override;
  std::string decode(std::span<const TokenId> ids, DecodeOptions options) const override;
  std::unique_ptr<TextStream> open_stream(DecodeOptions options) const override;

  int vocab_size() const override;
  std::optional<TokenId> token_to_id(std::string_view token) const override;
  std::string id_to_token(TokenId id) const override;
  bool is_special(TokenId id) const override;
  std::optional<TokenId> bos_id() const override;
  std::optional<TokenId> eos_id() const override;
  std::string special_text(std::string_view role) const override;
  const std::vector<NamedTemplate>& chat_templates() const override {
    return parts_.chat_templates;
  }
  std::string fingerprint() const override { return parts_.fingerprint; }

 private:
  friend class TokenTextStream;
  struct Memory;

  const AddedToken* added(TokenId id) const;
  /// The text that decoding starts from.
  std::string_view decoder_token(TokenId id) const;
  bool is_skipped(TokenId id) const;

  void encode_text(std::string_view text, Memory& memory, std::vector<TokenId>& out) const;
  void encode_segment(Segment segment, Memory& memory, std::vector<TokenId>& out) const;
  std::unique_ptr<Memory> borrow_memory() const;
  void give_back(std::unique_ptr<Memory> memory) const;

  TokenizerParts parts_;
  AddedTokenFinder raw_finder_;         // in the text as it comes
  AddedTokenFinder normalized_finder_;  // in the normalized text
  std::unordered_map<std::string_view, TokenId> added_by_content_;
  std::vector<std::int32_t> added_by_id_;  // index into parts_.added, -1 for the model's tokens

  // Working memory, word cache included, goes from call to call, not from word to word: one lock a
  // call, and as many caches as threads encode at once.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Memory>> idle_;
};

}  // namespace headrace
