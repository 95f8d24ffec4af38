// The methods of Python's types that a template may call, and the names of those it may not.
#pragma once

#include <string_view>

#include "model/chat/interpreter.h"
#include "model/chat/method_names.h"

namespace headrace::jinja {

/// kNone: no type has an attribute of that name.
Method find_method(std::string_view name);
std::string_view method_name(Method method);
/// Does the type of `value` have it?
bool has_method(const Value& value, Method method);
/// Would it change its owner? The sandbox hides such methods.
bool changes_owner(const Value& value, Method method);
/// Calls a method that has_method knows. RenderError for one that is not supported, by name.
Value call_method(Interpreter& interpreter, const MethodObject& method, const Arguments& arguments);

}  // namespace headrace::jinja
