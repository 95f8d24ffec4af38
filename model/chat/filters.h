// jinja2's built-in filters, and transformers' tojson.
#pragma once

#include <string>
#include <string_view>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

/// Null for what is no filter here.
Filter find_filter(std::string_view name);

/// What to say of a name that find_filter does not know.
std::string missing_filter(std::string_view name);

}  // namespace headrace::jinja
