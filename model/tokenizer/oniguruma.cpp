#include "model/tokenizer/oniguruma.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model/tokenizer/shown_text.h"
#include "model/tokenizer/unicode.h"

namespace headrace {
namespace {

constexpr std::string_view kSpaceItems =
    "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"
    "\\x{3000}";
constexpr char32_t kMongolianVowelSeparator = 0x180E;  // white space for PCRE2 alone

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kLongNames = {
    {{"Letter", "L"},
     {"Mark", "M"},
     {"Number", "N"},
     {"Punctuation", "P"},
     {"Symbol", "S"},
     {"Separator", "Z"},
     {"Other", "C"}}};

// Of a general category by its short name.
std::optional<std::uint32_t> category_mask(std::string_view name) {
  static constexpr std::array<std::string_view, 30> kNames = {
      "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
      "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i] || (name.size() == 1 && name[0] == kNames[i][0])) {
      mask |= std::uint32_t{1} << i;
    }
  }
  const auto control = bits(Category::kCc);
  if ((mask & control) != 0) mask |= bits(Category::kControlSpace);
  return mask == 0 ? std::nullopt : std::optional(mask);
}

constexpr std::array<CodeRange, 2> kAllCharacters = {{{0, 0xD7FF}, {0xE000, 0x10FFFF}}};

// Class items for every character of the ranges of which accepts() is true.
template <class Accepts>
std::string range_items(std::span<const CodeRange> ranges, Accepts accepts) {
  std::string items;
  for (const CodeRange& range : ranges) {
    for (std::uint32_t c = range.first; c <= range.last; ++c) {
      if (!accepts(static_cast<char32_t>(c))) continue;
      const std::uint32_t first = c;
      while (c < range.last && accepts(static_cast<char32_t>(c + 1))) ++c;
      items += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", first, c);
    }
  }
  return items;
}

// What PCRE2's own table may lack of these categories.
std::string newer_items(std::uint32_t mask) {
  return range_items(newer_than_pcre(), [mask](char32_t c) { return is_any(c, mask); });
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (!at_end()) translate_one();
    return std::move(out_);
  }

 private:
  bool at_end() const { return position_ >= pattern_.size(); }
  bool sees(std::string_view text) const {
    return pattern_.substr(position_).substr(0, text.size()) == text;
  }

  [[noreturn]] void reject(std::string_view what) const {
    throw std::invalid_argument(
        fmt::format("regular expression {}, byte {}: {}", shown_text(pattern_), position_, what));
  }

  void copy(std::size_t count = 1) {
    out_ += pattern_.substr(position_, count);
    position_ += count;
  }

  void translate_one() {
    const char c = pattern_[position_];
    if (c == '{') {
      translate_interval();
      return;
    }
    if (std::string_view("*+?").find(c) == std::string_view::npos) atom_ = out_.size();
    if (c == '\\') {
      translate_escape();
    } else if (c == '[') {
      translate_class();
    } else if (c == '(') {
      groups_.push_back(out_.size());
      translate_group();
    } else {
      if (c == ')' && !groups_.empty()) {
        atom_ = groups_.back();
        groups_.pop_back();
      }
      copy();
    }
  }

  // "(?m" makes the dot match newlines, which PCRE2 writes "(?s".
  void translate_group() {
    if (!sees("(?")) {
      copy();
      return;
    }
    copy(2);
    while (!at_end() &&
           std::string_view("imx-").find(pattern_[position_]) != std::string_view::npos) {
      out_ += pattern_[position_] == 'm' ? 's' : pattern_[position_];
      ++position_;
    }
    if (!at_end() && std::string_view("sadu").find(pattern_[position_]) != std::string_view::npos) {
      reject("an option that is not one of i, m, x");
    }
  }

  // "{,n}" is {0,n}; a "+" behind an interval repeats the whole once more, where PCRE2 would take
  // it to make the interval possessive.
  void translate_interval() {
    const std::size_t close = pattern_.find('}', position_);
    const std::string_view body = close == std::string_view::npos
                                      ? std::string_view{}
                                      : pattern_.substr(position_ + 1, close - position_ - 1);
    if (!is_interval(body)) {
      out_ += "\\{";
      ++position_;
      return;
    }
    position_ = close + 1;
    const std::string interval = fmt::format("{{{}{}}}", body.front() == ',' ? "0" : "", body);
    if (sees("+")) {
      out_.insert(atom_, "(?:");
      out_ += interval + ")";
    } else {
      out_ += interval;
    }
  }

  // n  n,  ,m  n,m
  static bool is_interval(std::string_view body) {
    const std::size_t comma = std::min(body.find(','), body.size());
    const std::string_view low = body.substr(0, comma);
    const std::string_view high = comma < body.size() ? body.substr(comma + 1) : "";
    const auto is_number = [](std::string_view text) {
      return text.size() < 6 && std::all_of(text.begin(), text.end(),
                                            [](unsigned char c) { return std::isdigit(c) != 0; });
    };
    return !(low.empty() && high.empty()) && is_number(low) && is_number(high);
  }

  void translate_escape() {
    if (position_ + 1 >= pattern_.size()) reject("ends in a backslash");
    const char c = pattern_[position_ + 1];
    if (std::string_view("sSdDwWhHpP").find(c) != std::string_view::npos) {
      const auto [items, negated] = class_escape();
      out_ += fmt::format("[{}{}]", negated ? "^" : "", items);
    } else if (c == 'b' || c == 'B') {
      position_ += 2;
      const std::string word = word_items();
      out_ += c == 'b' ? fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", word)
                       : fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", word);
    } else {
      translate_plain_escape();
    }
  }

  // Escapes that mean one thing inside and outside of classes.
  void translate_plain_escape() {
    const char c = pattern_[position_ + 1];
    if (c == 'v') {
      out_ += "\\x0B";
      position_ += 2;
    } else if (c == 'u') {
      const std::string_view digits = pattern_.substr(position_ + 2, 4);
      if (digits.size() < 4 || !std::all_of(digits.begin(), digits.end(), [](unsigned char d) {
            return std::isxdigit(d) != 0;
          })) {
        reject("\\u needs four hexadecimal digits");
      }
      out_ += fmt::format("\\x{{{}}}", digits);
      position_ += 6;
    } else if (std::string_view("OyYCMQEL").find(c) != std::string_view::npos) {
      reject("an escape without counterpart");
    } else {
      copy(2);
    }
  }

  struct ClassEscape {
    std::string items;
    bool negated;
  };

  // The items of \s, \d, \w, \h, \p{..} (of the positive set, and whether it is negated).
  ClassEscape class_escape() {
    const char c = pattern_[position_ + 1];
    if (c == 'p' || c == 'P') return property_escape();
    position_ += 2;
    const bool negated = std::isupper(static_cast<unsigned char>(c)) != 0;
    switch (c) {
      case 's':
      case 'S':
        return {.items = std::string(kSpaceItems), .negated = negated};
      case 'd':
      case 'D':
        return {.items = "\\p{Nd}" + newer_items(bits(Category::kNd)), .negated = negated};
      case 'w':
      case 'W':
        return {.items = word_items(), .negated = negated};
      default:
        return {.items = "0-9A-Fa-f", .negated = negated};
    }
  }

  ClassEscape property_escape() {
    const bool upper = pattern_[position_ + 1] == 'P';
    const std::size_t close = pattern_.find('}', position_);
    if (position_ + 2 >= pattern_.size() || pattern_[position_ + 2] != '{' ||
        close == std::string_view::npos) {
      reject("a property without {name}");
    }
    std::string_view name = pattern_.substr(position_ + 3, close - position_ - 3);
    const bool caret = !name.empty() && name.front() == '^';
    if (caret) name.remove_prefix(1);
    if (name.empty() || !std::all_of(name.begin(), name.end(), [](unsigned char d) {
          return std::isalnum(d) != 0 || d == '_';
        })) {
      reject("a property without a name");
    }
    position_ = close + 1;
    const bool negated = upper != caret;
    for (const auto& [long_name, short_name] : kLongNames) {
      if (name == long_name) name = short_name;
    }
    property_mask_ = category_mask(name);
    if (property_mask_) {
      return {.items = fmt::format("\\p{{{}}}{}", name, newer_items(*property_mask_)),
              .negated = negated};
    }
    return {.items = fmt::format("\\p{{sc:{}}}", name), .negated = negated};
  }

  static std::string word_items() {
    static constexpr std::uint32_t kPlain =
        kLetter | kMark | bits(Category::kNd) | bits(Category::kNl) | bits(Category::kPc);
    static const std::string items = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}" + newer_items(kPlain) +
                                     range_items(kAllCharacters, [](char32_t c) {
                                       return is_regex_word(c) && !is_any(c, kPlain);
                                     });
    return items;
  }

  void translate_class() {
    copy();
    if (sees("^")) copy();
    if (sees("]")) {  // a bracket in the first place is a character
      out_ += "\\]";
      ++position_;
    }
    while (!at_end() && pattern_[position_] != ']') translate_class_item();
    if (at_end()) reject("a character class without an end");
    copy();
  }

  void translate_class_item() {
    if (sees("[:")) {
      const std::size_t close = pattern_.find(":]", position_);
      if (close == std::string_view::npos) reject("a \"[:\" without \":]\"");
      copy(close + 2 - position_);
    } else if (sees("[")) {
      reject("a character class inside a character class");
    } else if (sees("&&")) {
      reject("an intersection of character classes");
    } else if (!sees("\\")) {
      copy();
    } else if (position_ + 1 < pattern_.size() &&
               std::string_view("sSdDwWhHpP").find(pattern_[position_ + 1]) !=
                   std::string_view::npos) {
      translate_class_escape();
    } else if (position_ + 1 < pattern_.size()) {
      translate_plain_escape();
    } else {
      reject("ends in a backslash");
    }
  }

  void translate_class_escape() {
    const char letter = static_cast<char>(std::tolower(pattern_[position_ + 1]));
    const ClassEscape escape = class_escape();
    if (!escape.negated) {
      out_ += escape.items;
    } else if (letter == 's') {
      out_ += fmt::format("\\S\\x{{{:X}}}", static_cast<std::uint32_t>(kMongolianVowelSeparator));
    } else if (letter == 'w') {
      out_ += range_items(kAllCharacters, [](char32_t c) { return !is_regex_word(c); });
    } else if (letter == 'h') {
      out_ += "\\x{0}-/:-@G-`g-\\x{10FFFF}";
    } else if (letter == 'p' && !property_mask_) {
      out_ += "\\P" + escape.items.substr(2);
    } else {
      const std::uint32_t mask = letter == 'd' ? bits(Category::kNd) : *property_mask_;
      out_ += range_items(kAllCharacters, [mask](char32_t c) { return !is_any(c, mask); });
    }
  }

  std::string_view pattern_;
  std::size_t position_ = 0;
  std::string out_;
  std::size_t atom_ = 0;                        // where in out_ the last atom begins
  std::vector<std::size_t> groups_;             // where the open groups begin
  std::optional<std::uint32_t> property_mask_;  // of the last \p, where it is a general category
};

}  // namespace

std::string pcre_from_oniguruma(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace headrace
