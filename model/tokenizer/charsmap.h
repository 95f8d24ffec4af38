// SentencePiece's precompiled normalization: a double-array trie from character sequences to their
// replacements, as tokenizer.json carries it in base64.
//
// Layout: u32 size of the trie in bytes, the trie's units (u32 little-endian), then the
// replacements, each ended by a NUL. A unit holds a label in bits 0-7, "a leaf follows" in bit 8,
// and an offset in bits 10-30, shifted by 8 more where bit 9 is set; a leaf holds a value in bits
// 0-30.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

class Charsmap {
 public:
  /// Throws std::invalid_argument for what is not base64 or shorter than it says.
  explicit Charsmap(std::string_view base64);

  std::string normalize(std::string_view text) const;

 private:
  /// Replacement of the shortest entry that begins the piece.
  std::optional<std::string_view> replacement(std::string_view piece) const;

  std::vector<std::uint32_t> trie_;
  std::string replacements_;
};

}  // namespace headrace
