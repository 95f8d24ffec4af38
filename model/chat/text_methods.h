// The work behind Python's str methods, on UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

struct Replacement {
  std::string_view old;
  std::string_view fresh;
  std::int64_t count = -1;  // negative: all
};
/// str.replace. RenderError where the result would be too long.
std::string replace_text(Interpreter& interpreter, std::string_view text,
                         const Replacement& replacement);

struct Justification {
  std::int64_t width = 0;  // code points
  std::string_view fill = " ";
  char align = '<';  // < > ^ as ljust, rjust, center
};
std::string justify(Interpreter& interpreter, std::string_view text,
                    const Justification& justification);

/// str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

struct Splitting {
  std::optional<std::string_view> separator;  // none: runs of whitespace
  std::int64_t max_splits = -1;
  bool from_right = false;
};
/// str.split and str.rsplit. The views last as long as text.
std::vector<std::string_view> split_text(std::string_view text, const Splitting& splitting);

/// Calls a method of str or Markup.
Value call_text_method(Interpreter& interpreter, const MethodObject& method,
                       const Arguments& arguments);

}  // namespace headrace::jinja
