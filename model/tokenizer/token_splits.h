// The merges of a vocabulary that lists none: SentencePiece joins two tokens wherever the whole is
// a token.
#pragma once

#include <cstdint>
#include <vector>

#include "model/tokenizer/vocabulary.h"

namespace headrace {

struct TokenSplit {
  TokenId joined = -1;
  TokenId left = -1;
  TokenId right = -1;
  std::int32_t left_chars = 0;
  std::int32_t right_chars = 0;
};

/// Every way to cut a token into two others: by id of the token, then by length of the left part.
/// takes_part: by id, which tokens join and are joined. Where a text stands twice, only the token
/// that the vocabulary finds counts.
std::vector<TokenSplit> token_splits(const Vocabulary& vocabulary,
                                     const std::vector<bool>& takes_part);

}  // namespace headrace
