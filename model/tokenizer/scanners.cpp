#include "model/tokenizer/scanners.h"

#include <array>
#include <utility>

#include "model/tokenizer/unicode.h"

namespace headrace {

const std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kLlama3Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwen2Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwen35Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kO200kExpression =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

constexpr std::uint32_t kUpperLike =
    bits(Category::kLu) | bits(Category::kLt) | bits(Category::kLm) | bits(Category::kLo) | kMark;
constexpr std::uint32_t kLowerLike =
    bits(Category::kLl) | bits(Category::kLm) | bits(Category::kLo) | kMark;

// A text with the categories of its characters at hand.
class View {
 public:
  explicit View(std::string_view text) : text_(text), table_(category_table()) {}

  std::size_t size() const { return text_.size(); }
  char byte(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  std::string_view from(std::size_t i) const { return text_.substr(i); }

  // Whether a character of these categories begins at i; false at the end.
  bool is(std::size_t i, std::uint32_t categories) const {
    return i < text_.size() && (categories >> table_[next_char(text_, i)] & 1U) != 0;
  }
  std::size_t after(std::size_t i) const { return i + utf8_length(text_[i]); }

  // End of the longest run of such characters (at most `limit`).
  std::size_t run(std::size_t i, std::uint32_t categories, int limit = -1) const {
    while (i < text_.size() && limit-- != 0) {
      std::size_t next = i;
      if ((categories >> table_[next_char(text_, next)] & 1U) == 0) break;
      i = next;
    }
    return i;
  }

  bool is_newline(std::size_t i) const { return byte(i) == '\n' || byte(i) == '\r'; }

 private:
  std::string_view text_;
  const CategoryTable& table_;
};

// 's 't 're 've 'm 'll 'd at i: its end, or i.
std::size_t contraction(const View& text, std::size_t i) {
  if (text.byte(i) != '\'') return i;
  const char first = text.byte(i + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
  const char second = text.byte(i + 2);
  const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l');
  return two ? i + 3 : i;
}

// The same in either case; the long s (U+017F) is an s.
std::size_t caseless_contraction(const View& text, std::size_t i) {
  if (text.byte(i) != '\'') return i;
  if (text.from(i + 1).substr(0, 2) == "\xC5\xBF") return i + 3;
  const auto lower = [&](std::size_t at) {
    const char c = text.byte(at);
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char first = lower(i + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
  const char second = lower(i + 2);
  const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l');
  return two ? i + 3 : i;
}

// \s+(?!\S)|\s+ at a run of spaces: all of it at the end of the text; otherwise the last one is
// left to the word behind, unless it is the only one.
std::size_t spaces(std::string_view text, std::size_t begin, std::size_t end) {
  if (end == text.size()) return end;
  const std::size_t last = previous_char(text, end);
  return last > begin ? last : end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last newline of the run, where there is one.
std::size_t lines_or_spaces(std::string_view text, std::size_t begin, std::size_t end) {
  for (std::size_t i = end; i > begin; --i) {
    if (text[i - 1] == '\n' || text[i - 1] == '\r') return i;
  }
  return spaces(text, begin, end);
}

std::size_t scan_gpt2(std::string_view whole, std::size_t begin) {
  const View text(whole);
  const std::size_t short_form = contraction(text, begin);
  if (short_form != begin) return short_form;
  const std::size_t word = text.byte(begin) == ' ' ? begin + 1 : begin;
  for (const std::uint32_t kind : {kLetter, kNumber, ~(kSpace | kLetter | kNumber)}) {
    if (text.is(word, kind)) return text.run(word, kind);
  }
  return spaces(whole, begin, text.run(begin, kSpace));
}

// What the expressions of llama 3, Qwen 2 and Qwen 3.5 differ in.
struct WordRules {
  std::uint32_t letters;
  int max_digits;
};

// Punctuation with the newlines (and, for some, slashes) behind it; begin where there is none.
std::size_t signs(const View& text, std::size_t begin, std::uint32_t words, bool slashes) {
  const std::uint32_t kind = ~(kSpace | words | kNumber);
  const std::size_t first = text.byte(begin) == ' ' ? begin + 1 : begin;
  if (!text.is(first, kind)) return begin;
  std::size_t end = text.run(first, kind);
  while (text.is_newline(end) || (slashes && text.byte(end) == '/')) ++end;
  return end;
}

// [^\r\n\p{L}\p{N}] : what may lead a word.
bool is_word_lead(const View& text, std::size_t i) {
  return !text.is_newline(i) && text.is(i, ~(kLetter | kNumber));
}

template <WordRules kRules>
std::size_t scan_words(std::string_view whole, std::size_t begin) {
  const View text(whole);
  const std::size_t short_form = caseless_contraction(text, begin);
  if (short_form != begin) return short_form;
  if (is_word_lead(text, begin) && text.is(text.after(begin), kRules.letters)) {
    return text.run(text.after(begin), kRules.letters);
  }
  if (text.is(begin, kRules.letters)) return text.run(begin, kRules.letters);
  if (text.is(begin, kNumber)) return text.run(begin, kNumber, kRules.max_digits);
  const std::size_t end = signs(text, begin, kRules.letters, false);
  if (end != begin) return end;
  return lines_or_spaces(whole, begin, text.run(begin, kSpace));
}

// [U]*[W]+ at i, or i: the upper-like run gives back characters until a lower-like one is left.
std::size_t capitalized_word(std::string_view whole, const View& text, std::size_t i) {
  std::size_t end = text.run(i, kUpperLike);
  if (text.is(end, kLowerLike)) return text.run(end, kLowerLike);
  while (end > i) {
    const std::size_t last = previous_char(whole, end);
    if (text.is(last, kLowerLike)) return end;
    end = last;
  }
  return i;
}

std::size_t scan_o200k(std::string_view whole, std::size_t begin) {
  const View text(whole);
  const bool has_lead = is_word_lead(text, begin);
  const std::size_t led = text.after(begin);
  for (const bool capitalized : {true, false}) {
    for (const std::size_t first : {has_lead ? led : begin, begin}) {
      const std::size_t end =
          capitalized ? capitalized_word(whole, text, first) : text.run(first, kUpperLike);
      if (end != first) return caseless_contraction(text, end);
    }
  }
  if (text.is(begin, kNumber)) return text.run(begin, kNumber, 3);
  const std::size_t end = signs(text, begin, kLetter, true);
  if (end != begin) return end;
  return lines_or_spaces(whole, begin, text.run(begin, kSpace));
}

}  // namespace

Scanner find_scanner(std::string_view expression) {
  static constexpr WordRules kLlama3{.letters = kLetter, .max_digits = 3};
  static constexpr WordRules kQwen2{.letters = kLetter, .max_digits = 1};
  static constexpr WordRules kQwen35{.letters = kLetter | kMark, .max_digits = 1};
  const std::array<std::pair<std::string_view, Scanner>, 5> known = {{
      {kGpt2Expression, scan_gpt2},
      {kLlama3Expression, scan_words<kLlama3>},
      {kQwen2Expression, scan_words<kQwen2>},
      {kQwen35Expression, scan_words<kQwen35>},
      {kO200kExpression, scan_o200k},
  }};
  for (const auto& [text, scanner] : known) {
    if (text == expression) return scanner;
  }
  return nullptr;
}

}  // namespace headrace
