// SentencePiece's unigram model: the segmentation of a word with the best sum of scores (Viterbi).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "model/tokenizer/byte_trie.h"
#include "model/tokenizer/vocabulary.h"
#include "model/tokenizer/word_model.h"

namespace headrace {

class UnigramModel final : public WordModel {
 public:
  struct Options {
    std::optional<TokenId> unk_id;
    bool byte_fallback = false;  // an unknown stretch becomes <0xNN> where these exist
  };

  /// scores: by id.
  UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores,
               Options options);

 protected:
  void encode_unknown(std::string_view word, WordMemory& memory,
                      std::vector<TokenId>& out) const override;

 private:
  void build_trie();
  void find_best_ends(std::string_view word, std::vector<WordMemory::BestEnd>& ends) const;
  void append_piece(std::string_view piece, std::vector<TokenId>& out) const;

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<double> scores_;
  Options options_;
  double unk_score_ = 0.0;
  ByteTrie trie_;
  std::array<TokenId, 256> fallback_{};
};

}  // namespace headrace
