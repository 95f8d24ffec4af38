// What the tokenizers library calls a pattern: something that cuts a text into matches and the gaps
// between them. Splitting and replacing are built on it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;  // false: a gap
};

class Pattern {
 public:
  Pattern() = default;
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  virtual ~Pattern() = default;

  /// Appends matches and gaps that cover the text, in order. Matches may be empty, gaps are not.
  virtual void find(std::string_view text, std::vector<Match>& out) const = 0;
};

/// Each character with the property is a match.
std::unique_ptr<Pattern> char_pattern(bool (*accepts)(char32_t));
/// Each occurrence of a text; an empty one occurs as the empty expression would.
std::unique_ptr<Pattern> literal_pattern(std::string text);
/// An Oniguruma expression. Known tokenizer expressions get a hand-written scanner (see
/// scanners.h).
std::unique_ptr<Pattern> regex_pattern(const std::string& expression);
/// The same, always through PCRE2.
std::unique_ptr<Pattern> pcre_pattern(const std::string& expression);

/// The text with every match replaced.
std::string replace_matches(std::string_view text, const Pattern& pattern,
                            std::string_view replacement);

}  // namespace headrace
