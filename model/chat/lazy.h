// One-shot sequences whose items are made as they are asked for: what jinja2's generator filters
// give.
#pragma once

#include <functional>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

/// Gives the next item, or false at the end.
using NextItem = std::function<bool(Value&)>;

/// `holds`: the values that the function keeps, for the bounds on depth.
Value make_lazy(Interpreter& interpreter, NextItem next, const Values& holds);
/// The same, showing itself as another type than a generator.
Value make_lazy(Interpreter& interpreter, NextItem next, const Values& holds,
                const char* type_name);

/// Backwards over a str, list, tuple, dict, view or range, as reversed(); kMissing for anything
/// else.
Value make_reversed(Interpreter& interpreter, const Value& value);

}  // namespace headrace::jinja
