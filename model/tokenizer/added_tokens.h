// Tokens that are found in the text before anything else happens to it: special tokens, and what
// was added to a vocabulary after training.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/token.h"
#include "model/tokenizer/byte_trie.h"

namespace headrace {

struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool single_word = false;  // not as a part of a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // looked for in the normalized text, in its normalized form
  bool special = false;      // left out by skip_special_tokens
  std::string normal_form;   // of a normalized one; its content where no normalizer changes it

  /// What is looked for, and what decoding starts from.
  const std::string& pattern() const { return normalized ? normal_form : content; }
};

/// Cuts a text at some added tokens: at each place the longest, the leftmost first.
class AddedTokenFinder {
 public:
  struct Piece {
    std::size_t begin = 0;
    std::size_t end = 0;
    TokenId id = -1;  // -1: text
  };

  /// Throws std::invalid_argument where two tokens look for the same text, or one for none.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  /// Appends the pieces of the text in order; text pieces are never empty.
  void cut(std::string_view text, std::vector<Piece>& out) const;

 private:
  struct Hit {
    std::size_t begin = 0;
    std::size_t end = 0;
    const AddedToken* token = nullptr;
  };
  std::optional<Hit> find(std::string_view text, std::size_t from) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;                   // value: index into tokens_
  std::array<bool, 256> begins_{};  // whether a token begins with this byte
};

}  // namespace headrace
