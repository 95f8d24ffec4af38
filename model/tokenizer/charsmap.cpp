#include "model/tokenizer/charsmap.h"

#include <utf8proc.h>

#include <cstring>
#include <stdexcept>

#include "model/tokenizer/base64.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << 8 * i;
  }
  return value;
}

constexpr std::uint32_t unit_offset(std::uint32_t unit) {
  return (unit >> 10) << ((unit & 1U << 9) >> 6);
}
constexpr std::uint32_t unit_label(std::uint32_t unit) {
  return unit & (1U << 31 | 0xFF);
}
constexpr bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1U) != 0;
}
constexpr std::uint32_t leaf_value(std::uint32_t unit) {
  return unit & ~(1U << 31);
}

// End of the grapheme cluster that begins at `begin`.
std::size_t cluster_end(std::string_view text, std::size_t begin) {
  utf8proc_int32_t state = 0;
  std::size_t end = begin;
  auto previous = static_cast<utf8proc_int32_t>(next_char(text, end));
  while (end < text.size()) {
    std::size_t next = end;
    const auto c = static_cast<utf8proc_int32_t>(next_char(text, next));
    if (utf8proc_grapheme_break_stateful(previous, c, &state) != 0) break;
    previous = c;
    end = next;
  }
  return end;
}

}  // namespace

Charsmap::Charsmap(std::string_view base64) {
  const std::string bytes = decode_base64(base64);
  const std::uint32_t trie_bytes = bytes.size() < 4 ? 0 : read_u32(bytes, 0);
  if (bytes.size() < 4 || trie_bytes > bytes.size() - 4 || trie_bytes % 4 != 0) {
    throw std::invalid_argument("precompiled_charsmap is shorter than its own header says");
  }
  trie_.reserve(trie_bytes / 4);
  for (std::size_t at = 4; at < 4 + std::size_t{trie_bytes}; at += 4) {
    trie_.push_back(read_u32(bytes, at));
  }
  replacements_ = bytes.substr(4 + std::size_t{trie_bytes});
  if (find_invalid_utf8(replacements_) != std::string_view::npos) {
    throw std::invalid_argument("precompiled_charsmap has replacements that are not UTF-8");
  }
}

std::optional<std::string_view> Charsmap::replacement(std::string_view piece) const {
  if (trie_.empty()) return std::nullopt;
  std::size_t position = unit_offset(trie_[0]);
  for (const char byte : piece) {
    const auto label = static_cast<unsigned char>(byte);
    position ^= label;
    if (label == 0 || position >= trie_.size()) return std::nullopt;
    const std::uint32_t unit = trie_[position];
    if (unit_label(unit) != label) return std::nullopt;
    position ^= unit_offset(unit);
    if (position >= trie_.size()) return std::nullopt;
    if (!has_leaf(unit)) continue;
    const std::size_t start = leaf_value(trie_[position]);
    if (start > replacements_.size()) return std::nullopt;
    const std::string_view rest = std::string_view(replacements_).substr(start);
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

// Short clusters are looked up whole, then character by character: SentencePiece's models depend on
// just this.
std::string Charsmap::normalize(std::string_view text) const {
  constexpr std::size_t kLongestWhole = 5;
  std::string out;
  out.reserve(text.size());
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = cluster_end(text, begin);
    const std::string_view cluster = text.substr(begin, end - begin);
    begin = end;
    if (cluster.size() <= kLongestWhole) {
      if (const auto whole = replacement(cluster)) {
        out += *whole;
        continue;
      }
    }
    for (std::size_t i = 0; i < cluster.size();) {
      const std::string_view character = cluster.substr(i, utf8_length(cluster[i]));
      out += replacement(character).value_or(character);
      i += character.size();
    }
  }
  return out;
}

}  // namespace headrace
