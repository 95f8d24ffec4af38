// Values as Python prints them: str() and repr().
#pragma once

#include <string>
#include <string_view>

#include "model/chat/value.h"

namespace headrace::jinja {

/// str(value). Costs value.weight() steps, which the caller charges.
std::string to_text(const Value& value);
/// repr(value); likewise.
std::string to_repr(const Value& value);
/// repr() of a str.
std::string quote_text(std::string_view text);
/// repr() of a float: the shortest digits that read back as the same number.
std::string float_text(double value);
std::string integer_text(Int128 value, int base = 10, bool upper = false);

}  // namespace headrace::jinja
