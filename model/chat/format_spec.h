// Format specifications: how numbers and text are laid out, for % and str.format alike.
#pragma once

#include <string>
#include <string_view>

#include "model/chat/interpreter.h"

namespace headrace::jinja {

/// A format specification of str.format, or the like of a % conversion.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > = ^, or 0 for the type's own
  char sign = '-';
  bool alternate = false;
  char grouping = 0;  // , or _
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = 0;
};

/// Digits at `at`, which moves behind them; none is 0.
std::int64_t parse_count(std::string_view text, std::size_t& at);
/// The specification that str.format applies to `value`.
Spec parse_spec(std::string_view text, const Value& value);

std::string format_float(Interpreter& interpreter, double value, const Spec& spec);
std::string format_integer(Interpreter& interpreter, const Value& value, const Spec& spec);
std::string format_string(Interpreter& interpreter, std::string_view text, const Spec& spec);

/// `prefix` (sign, 0x) stays in front where the padding goes between it and the digits.
std::string pad(Interpreter& interpreter, const Spec& spec, const std::string& prefix,
                const std::string& body, char default_align);
/// What stands before a number: a minus, or what `sign` (- + or space) asks for.
std::string sign_of(bool negative, char sign);

}  // namespace headrace::jinja
