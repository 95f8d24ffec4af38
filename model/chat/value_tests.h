// jinja2's built-in tests.
#pragma once

#include <string_view>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

/// Null for what is no test.
Test find_test(std::string_view name);

}  // namespace headrace::jinja
