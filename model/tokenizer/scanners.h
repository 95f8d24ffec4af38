// Hand-written scanners for the split expressions that most models use: several times faster than a
// regular expression engine, and tested to cut every text as PCRE2 does.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headrace {

/// End of the match that begins at `begin` (< text.size()); the expression matches everywhere, and
/// never nothing.
using Scanner = std::size_t (*)(std::string_view text, std::size_t begin);

// The expressions, to the letter.
extern const std::string_view kGpt2Expression;
extern const std::string_view kLlama3Expression;
extern const std::string_view kQwen2Expression;
extern const std::string_view kQwen35Expression;
extern const std::string_view kO200kExpression;

/// The scanner for exactly this expression, or nullptr.
Scanner find_scanner(std::string_view expression);

}  // namespace headrace
