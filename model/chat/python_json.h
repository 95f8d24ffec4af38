// json.dumps.
#pragma once

#include <optional>
#include <string>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // one level's
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// Throws RenderError as json.dumps throws TypeError.
std::string dump_json(Interpreter& interpreter, const Value& value, const JsonStyle& style);

}  // namespace headrace::jinja
