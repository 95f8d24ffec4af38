// Writes JSON the same way for ever: no spaces, UTF-8 as it is, numbers in the shortest form that
// reads back as the same float32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace {

/// text must be UTF-8. Escapes the quote, the backslash and control characters only.
void append_json_string(std::string& out, std::string_view text);

/// Log-probabilities: values below -9999 and minus infinity become -9999 (as OpenAI and vLLM send
/// them), since JSON has no infinity; not-a-number becomes null.
void append_json_logprob(std::string& out, float value);

void append_json_integer(std::string& out, std::int64_t value);

/// Number of characters (code points) in UTF-8 text.
std::int64_t num_characters(std::string_view text);

}  // namespace headrace
