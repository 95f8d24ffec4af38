// Byte-pair encoding: symbols of a word are joined pairwise, the pair of the lowest rank first, the
// leftmost of equals. Serves byte-level vocabularies (GPT-2's kind) and SentencePiece's.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "model/tokenizer/merge_table.h"
#include "model/tokenizer/vocabulary.h"
#include "model/tokenizer/word_model.h"

namespace headrace {

struct BpeOptions {
  std::optional<std::string> unk_token;   // without one, unknown characters vanish
  std::string continuing_subword_prefix;  // before every character of a word but the first
  std::string end_of_word_suffix;         // behind its last
  bool fuse_unk = false;                  // neighbouring unknown characters are one token
  bool byte_fallback = false;             // unknown characters become <0xNN> where these exist
  bool ignore_merges = false;             // a word that is a token is not taken apart
  bool words_are_bytes = false;           // words come as bytes, tokens are in the byte alphabet
};

/// The ranks of a file's merges. Throws std::invalid_argument for a pair whose parts or whole are
/// not in the vocabulary.
MergeTable rank_merges(const RawMerges& raw, const Vocabulary& vocabulary, std::string_view prefix,
                       std::string_view source);

class BpeModel final : public WordModel {
 public:
  BpeModel(std::shared_ptr<const Vocabulary> vocabulary, MergeTable merges, BpeOptions options);

 protected:
  void encode_unknown(std::string_view word, WordMemory& memory,
                      std::vector<TokenId>& out) const override;

 private:
  bool bytes_to_ids(std::string_view word, std::vector<TokenId>& ids) const;
  void chars_to_ids(std::string_view word, std::vector<TokenId>& ids) const;
  bool fall_back_to_bytes(std::string_view text, std::vector<TokenId>& ids) const;
  TokenId unk_id() const;
  void merge_few(std::vector<TokenId>& ids) const;
  void merge_many(WordMemory& memory) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::array<TokenId, 256> alphabet_{};  // token of one byte's stand-in, -1 where there is none
  std::array<TokenId, 256> fallback_{};  // <0xNN>
};

}  // namespace headrace
