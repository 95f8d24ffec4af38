#include "model/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <vector>

namespace headrace {
namespace {

struct CaseRun {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t stride;
  std::int32_t delta;
};

#include "model/tokenizer/unicode_tables.inc"

constexpr std::uint32_t kWord =
    kLetter | kMark | bits(Category::kNd) | bits(Category::kNl) | bits(Category::kPc);

bool contains(std::span<const CodeRange> ranges, char32_t c) {
  const auto next = std::upper_bound(ranges.begin(), ranges.end(), c,
                                     [](char32_t x, CodeRange range) { return x < range.first; });
  return next != ranges.begin() && c <= std::prev(next)->last;
}

bool is_control_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x85;
}

std::unique_ptr<CategoryTable> build_category_table() {
  auto table = std::make_unique<CategoryTable>();
  const std::size_t runs = std::size(kCategoryRuns);
  for (std::size_t i = 0; i < runs; ++i) {
    const std::uint32_t first = kCategoryRuns[i] >> 5;
    const std::uint32_t end = i + 1 < runs ? kCategoryRuns[i + 1] >> 5 : 0x110000;
    std::fill(table->begin() + first, table->begin() + end,
              static_cast<std::uint8_t>(kCategoryRuns[i] & 31));
  }
  for (char32_t c = 0; c < 0x100; ++c) {
    if (is_control_space(c)) (*table)[c] = static_cast<std::uint8_t>(Category::kControlSpace);
  }
  return table;
}

// Whether every character is its own NFC and composes with nothing beside it. Blocks only: a quick
// yes for almost all text.
bool is_plainly_nfc(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_char(text, i);
    if (c < 0x300) continue;
    const bool plain = (c >= 0x400 && c <= 0x482) || (c >= 0x4E00 && c <= 0x9FFF) ||
                       (c >= 0x3001 && c <= 0x3029) || (c >= 0x3041 && c <= 0x3096) ||
                       (c >= 0x30A1 && c <= 0x30FA) || (c >= 0xAC00 && c <= 0xD7A3) ||
                       (c >= 0x2010 && c <= 0x2027) || (c >= 0xFF01 && c <= 0xFF60) ||
                       (c >= 0x1F300 && c <= 0x1F64F);
    if (!plain) return false;
  }
  return true;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

int combining_class(std::int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

// Marks into canonical order. A stable sort of each run, not utf8proc's own exchange of neighbours,
// whose time grows with the square of a run.
void order_marks(std::vector<std::int32_t>& text) {
  const auto is_mark = [](std::int32_t c) { return combining_class(c) != 0; };
  for (auto run = text.begin(); run != text.end();) {
    run = std::find_if(run, text.end(), is_mark);
    const auto end = std::find_if_not(run, text.end(), is_mark);
    if (end - run > 1) {
      std::stable_sort(run, end, [](std::int32_t a, std::int32_t b) {
        return combining_class(a) < combining_class(b);
      });
    }
    run = end;
  }
}

// Normalizes a run without inert characters and appends it.
void append_normalized(std::vector<std::int32_t>& decomposed, bool compose, std::string& out) {
  order_marks(decomposed);
  auto size = static_cast<utf8proc_ssize_t>(decomposed.size());
  if (compose) {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    size = utf8proc_normalize_utf32(decomposed.data(), size, options);
  }
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    append_utf8(out, static_cast<char32_t>(decomposed[static_cast<std::size_t>(i)]));
  }
  decomposed.clear();
}

void append_decomposed(std::vector<std::int32_t>& out, char32_t c, bool compatible) {
  std::array<std::int32_t, 32> parts;  // the longest decomposition has 18 characters
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_DECOMPOSE | (compatible ? static_cast<int>(UTF8PROC_COMPAT) : 0));
  const auto count =
      utf8proc_decompose_char(static_cast<std::int32_t>(c), parts.data(),
                              static_cast<utf8proc_ssize_t>(parts.size()), options, nullptr);
  out.insert(out.end(), parts.begin(), parts.begin() + count);
}

struct ByteAlphabet {
  std::array<char32_t, 256> chars;
  std::array<std::int16_t, 512> bytes;
};

// Printable Latin-1 stands for itself, the other bytes, in order, for U+0100 and up.
constexpr ByteAlphabet make_byte_alphabet() {
  ByteAlphabet alphabet{};
  for (auto& byte : alphabet.bytes) byte = -1;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const char32_t c = printable ? static_cast<char32_t>(byte) : next++;
    alphabet.chars[static_cast<std::size_t>(byte)] = c;
    alphabet.bytes[c] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}
constexpr ByteAlphabet kByteAlphabet = make_byte_alphabet();

}  // namespace

Utf8Prefix utf8_prefix(std::string_view bytes) {
  if (bytes.empty()) return {.size = 0, .valid = false, .complete = true};
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return {.size = 1, .valid = true, .complete = true};
  if (lead < 0xC2 || lead > 0xF4) return {.size = 1, .valid = false, .complete = true};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {.size = i, .valid = false, .complete = false};
    if (at(i) < low || at(i) > high) return {.size = i, .valid = false, .complete = true};
    low = 0x80;
    high = 0xBF;
  }
  return {.size = length, .valid = true, .complete = true};
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Prefix prefix = utf8_prefix(text.substr(i, 4));
    if (!prefix.valid) return i;
    i += prefix.size;
  }
  return std::string_view::npos;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

const CategoryTable& category_table() {
  static const std::unique_ptr<const CategoryTable> table = build_category_table();
  return *table;
}

bool is_space(char32_t c) {
  return is_any(c, kSpace);
}

bool is_numeric(char32_t c) {
  return is_any(c, kNumber) || contains(kRustNumericExtra, c);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && !is_any(c, kLetter | kNumber);
  return (is_any(c, kPunctuation) && !contains(kPunctuationMissing, c)) ||
         contains(kPunctuationExtra, c);
}

bool is_word(char32_t c) {
  return (is_any(c, kWord) && !contains(kRustWordMissing, c)) || contains(kRustWordExtra, c);
}

bool is_regex_word(char32_t c) {
  return (is_any(c, kWord) && !contains(kRegexWordMissing, c)) || contains(kRegexWordExtra, c);
}

std::span<const CodeRange> newer_than_pcre() {
  return kNewerThanPcre;
}

bool is_stripped_mark(char32_t c) {
  return (is_any(c, kMark) && !contains(kStrippedMissing, c)) || contains(kStrippedExtra, c);
}

void append_lowercase(std::string& out, char32_t c) {
  if (c == 0x130) {  // I with a dot becomes i and a combining dot
    out += "i\xCC\x87";
    return;
  }
  const std::span<const CaseRun> runs = kLowercaseRuns;
  const auto next = std::upper_bound(runs.begin(), runs.end(), c,
                                     [](char32_t x, const CaseRun& run) { return x < run.first; });
  if (next != runs.begin()) {
    const CaseRun& run = *std::prev(next);
    if (c <= run.last && (c - run.first) % run.stride == 0) {
      c = static_cast<char32_t>(static_cast<std::int32_t>(c) + run.delta);
    }
  }
  append_utf8(out, c);
}

std::string normalize(std::string_view text, NormalForm form) {
  if (form == NormalForm::kNfc ? is_plainly_nfc(text) : is_ascii(text)) return std::string(text);
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  std::string out;
  out.reserve(text.size());
  std::vector<std::int32_t> run;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_char(text, i);
    if (contains(kNormalizationInert, c)) {
      append_normalized(run, compose, out);
      append_utf8(out, c);
    } else {
      append_decomposed(run, c, compatible);
    }
  }
  append_normalized(run, compose, out);
  return out;
}

char32_t byte_to_char(unsigned char byte) {
  return kByteAlphabet.chars[byte];
}

int char_to_byte(char32_t c) {
  return c < kByteAlphabet.bytes.size() ? kByteAlphabet.bytes[c] : -1;
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(out, byte_to_char(static_cast<unsigned char>(byte)));
  return out;
}

bool from_byte_alphabet(std::string_view text, std::string& out) {
  const std::size_t before = out.size();
  for (std::size_t i = 0; i < text.size();) {
    const int byte = char_to_byte(next_char(text, i));
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
  }
  return true;
}

}  // namespace headrace
