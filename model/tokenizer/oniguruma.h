// Regular expressions of tokenizer.json are Oniguruma's (Ruby syntax); PCRE2 runs them here.
#pragma once

#include <string>
#include <string_view>

namespace headrace {

/// The same expression in PCRE2's syntax (options UTF, UCP, MULTILINE), with character classes of
/// the Unicode version that the tokenizers library uses. Throws std::invalid_argument for what has
/// no counterpart.
std::string pcre_from_oniguruma(std::string_view pattern);

}  // namespace headrace
