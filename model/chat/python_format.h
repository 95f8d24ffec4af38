// Python's two ways to format text: the % operator and str.format with its format specifications.
#pragma once

#include <string>
#include <string_view>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

struct FormatText {
  std::string_view text;
  bool markup = false;  // what is put in is escaped for HTML
};

/// format % values.
std::string percent_format(Interpreter& interpreter, FormatText format, const Value& values);
/// format.format(*args, **kwargs).
std::string brace_format(Interpreter& interpreter, FormatText format, const Arguments& arguments);
/// format(value, spec).
std::string format_value(Interpreter& interpreter, const Value& value, std::string_view spec);

/// HTML's five special characters escaped, as markupsafe does.
std::string escape_html(std::string_view text);
/// escape_html(str(value)), unless it is Markup already.
std::string escape_value(const Value& value);

}  // namespace headrace::jinja
