// Base64, which tokenizer.json uses for bytes.
#pragma once

#include <string>
#include <string_view>

namespace headrace {

std::string encode_base64(std::string_view bytes);

/// Throws std::invalid_argument for a character that does not belong there. Padding may be missing.
std::string decode_base64(std::string_view text);

}  // namespace headrace
