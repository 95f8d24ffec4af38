// The functions a template finds without anyone passing them.
#pragma once

#include <string_view>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

/// kMissing where there is none.
Value find_global(std::string_view name);

/// strftime of the C locale, as Python's datetime without a time zone gives it.
std::string format_time(Interpreter& interpreter, std::int64_t time_s, const std::string& format);

}  // namespace headrace::jinja
