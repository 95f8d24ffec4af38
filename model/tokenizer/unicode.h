// Characters as the tokenizers library sees them: UTF-8, properties, case and normal forms. The
// properties are pinned tables (unicode_tables.inc), so ids do not depend on a system library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace headrace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// Offset of the first byte that breaks UTF-8 (surrogates and overlong forms do), or npos.
std::size_t find_invalid_utf8(std::string_view text);

/// Bytes of the character that begins with this byte; text must be valid UTF-8.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The character at text[position] of valid UTF-8; position moves behind it.
inline char32_t next_char(std::string_view text, std::size_t& position) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data()) + position;
  if (p[0] < 0x80) {
    position += 1;
    return p[0];
  }
  if (p[0] < 0xE0) {
    position += 2;
    return static_cast<char32_t>((p[0] & 0x1F) << 6 | (p[1] & 0x3F));
  }
  if (p[0] < 0xF0) {
    position += 3;
    return static_cast<char32_t>((p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F));
  }
  position += 4;
  return static_cast<char32_t>((p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 |
                               (p[3] & 0x3F));
}

/// Start of the character that ends before `end` (end > 0).
inline std::size_t previous_char(std::string_view text, std::size_t end) {
  std::size_t start = end - 1;
  while ((static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  return start;
}

void append_utf8(std::string& out, char32_t c);

/// Length of the longest well-formed or still completable start of bytes: what is needed to replace
/// ill-formed UTF-8 by U+FFFD once for each maximal subpart.
struct Utf8Prefix {
  std::size_t size = 0;  // bytes it covers; at least 1 unless bytes is empty
  bool valid = false;    // one whole character
  bool complete = true;  // false: bytes end inside what could still become a character
};
Utf8Prefix utf8_prefix(std::string_view bytes);

// General categories, in the order of the tables, and one more for white space among the controls.
enum class Category : std::uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCs,
  kCo,
  kControlSpace
};

constexpr std::uint32_t bits(Category c) {
  return std::uint32_t{1} << static_cast<int>(c);
}

constexpr std::uint32_t kLetter = bits(Category::kLu) | bits(Category::kLl) | bits(Category::kLt) |
                                  bits(Category::kLm) | bits(Category::kLo);
constexpr std::uint32_t kMark = bits(Category::kMn) | bits(Category::kMc) | bits(Category::kMe);
constexpr std::uint32_t kNumber = bits(Category::kNd) | bits(Category::kNl) | bits(Category::kNo);
constexpr std::uint32_t kPunctuation =
    bits(Category::kPc) | bits(Category::kPd) | bits(Category::kPs) | bits(Category::kPe) |
    bits(Category::kPi) | bits(Category::kPf) | bits(Category::kPo);
constexpr std::uint32_t kSpace =
    bits(Category::kZs) | bits(Category::kZl) | bits(Category::kZp) | bits(Category::kControlSpace);

/// The category of every code point, one byte each.
using CategoryTable = std::array<std::uint8_t, 0x110000>;
const CategoryTable& category_table();

/// Whether the category of c is one of a union of bits().
inline bool is_any(char32_t c, std::uint32_t categories) {
  return (categories >> category_table()[c] & 1U) != 0;
}

bool is_space(char32_t c);          // White_Space
bool is_numeric(char32_t c);        // for the digits pre-tokenizer
bool is_punctuation(char32_t c);    // for the punctuation and BERT pre-tokenizers
bool is_word(char32_t c);           // \w of the whitespace pre-tokenizer and of single-word tokens
bool is_regex_word(char32_t c);     // \w of the regular expressions
bool is_stripped_mark(char32_t c);  // what StripAccents removes

struct CodeRange {
  std::uint32_t first;
  std::uint32_t last;
};
/// Code points assigned after the Unicode version that PCRE2 may carry.
std::span<const CodeRange> newer_than_pcre();

void append_lowercase(std::string& out, char32_t c);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
/// Linear in the length of the text, whatever marks it holds.
std::string normalize(std::string_view text, NormalForm form);

/// GPT-2's printable stand-in for a byte, and back (-1 for a character that stands for none).
char32_t byte_to_char(unsigned char byte);
int char_to_byte(char32_t c);

/// bytes in that spelling, each byte one character.
std::string to_byte_alphabet(std::string_view bytes);
/// The reverse; false, with out unchanged, where a character stands for no byte.
bool from_byte_alphabet(std::string_view text, std::string& out);

}  // namespace headrace
