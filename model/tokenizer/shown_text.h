// How a text from a file stands in a message.
#pragma once

#include <string>
#include <string_view>

namespace headrace {

/// In quotes, on one line whatever it holds, and cut where it is long.
std::string shown_text(std::string_view text);

/// A key as a path shows it: bare where it is a short word.
std::string shown_key(std::string_view key);

}  // namespace headrace
