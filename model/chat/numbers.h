// Python's int(), float() and round().
#pragma once

#include <optional>
#include <string_view>

#include "model/chat/value.h"

namespace headrace::jinja {

/// int(text, base); nothing where Python raises ValueError.
std::optional<Int128> parse_integer(std::string_view text, std::int64_t base);
/// float(text); likewise.
std::optional<double> parse_float(std::string_view text);
/// int(real) of a finite number.
Value truncate_to_integer(double real);
/// round(number, digits): ties to even on the exact decimal value; an int stays one.
Value round_number(const Value& number, std::int64_t digits);

}  // namespace headrace::jinja
