// A tokenizer small enough to reason about: a token a byte, and a few special and longer tokens.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "model/tokenizer/tokenizer.h"

namespace headrace {

/// 0..255: that byte. 256 "<s>", 257 "</s>" (both special), 258 "end", 259 " END", 260 "a" (a
/// twin). Its model's table has rows for two ids more.
class FakeTokenizer final : public Tokenizer {
 public:
  static constexpr TokenId kBos = 256;
  static constexpr TokenId kEos = 257;
  static constexpr TokenId kWord = 258;    // "end"
  static constexpr TokenId kSpaced = 259;  // " END"
  static constexpr TokenId kTwin = 260;    // "a", as 97
  static constexpr int kNumIds = 261;
  static constexpr TokenId kPadding = 262;  // an id of the model that is no token
  static constexpr int kVocabSize = 263;    // the model's

  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const override {
    std::vector<TokenId> ids;
    if (options.add_special_tokens) ids.push_back(kBos);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const override;
  std::unique_ptr<TextStream> open_stream(DecodeOptions options = {}) const override;
  int vocab_size() const override { return kNumIds; }
  std::optional<TokenId> token_to_id(std::string_view) const override { return std::nullopt; }
  std::string id_to_token(TokenId) const override { return {}; }
  bool is_special(TokenId id) const override { return id == kBos || id == kEos; }
  std::optional<TokenId> bos_id() const override { return kBos; }
  std::optional<TokenId> eos_id() const override { return kEos; }
  std::string special_text(std::string_view role) const override {
    if (role == "bos_token") return "<s>";
    return role == "eos_token" ? "</s>" : "";
  }
  const std::vector<NamedTemplate>& chat_templates() const override { return templates_; }
  std::string fingerprint() const override { return "fake"; }

 private:
  std::vector<NamedTemplate> templates_;
};

}  // namespace headrace
