#include "model/chat/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "model/chat/python_text.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

bool is_align(char c) {
  return c == '<' || c == '>' || c == '=' || c == '^';
}

std::string group_digits(const std::string& digits, char separator, std::size_t every) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
}

// The digits of |value| in C's notation `type` (e f g and capitals), without a sign.
std::string float_digits(Interpreter& interpreter, double value, std::int64_t precision, char type,
                         bool alternate) {
  const bool upper = type >= 'A' && type <= 'Z';
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return upper ? "INF" : "inf";
  constexpr std::size_t kLongestDouble = 320;
  interpreter.check_text(static_cast<std::size_t>(precision) + kLongestDouble);
  interpreter.charge(static_cast<std::size_t>(precision) / kBytesPerWeight);
  const std::string pattern = std::string(alternate ? "%#.*" : "%.*") + type;
  const char* format = pattern.c_str();
  const int size = std::snprintf(nullptr, 0, format, static_cast<int>(precision), std::fabs(value));
  std::string out(static_cast<std::size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format, static_cast<int>(precision), std::fabs(value));
  out.pop_back();
  return out;
}

std::string grouped_number(const std::string& digits, char separator) {
  if (separator == 0) return digits;
  const std::size_t whole = digits.find_first_not_of("0123456789");
  const std::string head = digits.substr(0, whole);
  return group_digits(head, separator, 3) +
         (whole == std::string::npos ? "" : digits.substr(whole));
}

// A float with a precision but no type: like g, but it keeps one digit behind the point, and turns
// to the exponent one digit earlier.
std::string untyped_digits(Interpreter& interpreter, double value, std::int64_t precision) {
  std::string scientific = float_digits(interpreter, value, precision - 1, 'e', false);
  const std::size_t mark = scientific.find('e');
  if (mark == std::string::npos) return scientific;  // inf, nan
  const int exponent = std::stoi(scientific.substr(mark + 1));
  if (exponent >= -4 && exponent + 1 < precision) {
    const std::string digits = float_digits(interpreter, value, precision, 'g', false);
    return digits.find('.') == std::string::npos ? digits + ".0" : digits;
  }
  std::string mantissa = scientific.substr(0, mark);
  if (mantissa.find('.') != std::string::npos) {
    mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
  }
  return mantissa + scientific.substr(mark);
}

}  // namespace

std::int64_t parse_count(std::string_view text, std::size_t& at) {
  std::int64_t count = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    count = count * 10 + (text[at++] - '0');
    if (count > std::numeric_limits<std::int32_t>::max())
      throw RenderError("Too many decimal digits in format string");
  }
  return count;
}

Spec parse_spec(std::string_view text, const Value& value) {
  Spec spec;
  std::size_t at = 0;
  if (!text.empty()) {
    std::size_t after = 0;
    next_code_point(text, after);
    if (after < text.size() && is_align(text[after])) {
      spec.fill = text.substr(0, after);
      spec.align = text[after];
      at = after + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto take = [&](std::string_view choices) {
    return at < text.size() && choices.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (take("0") != 0 && spec.align == 0) {
    spec.fill = "0";
    spec.align = value.is(Kind::kString) ? '<' : '=';
  }
  spec.width = parse_count(text, at);
  spec.grouping = take(",_");
  if (take(".") != 0) {
    if (at >= text.size() || text[at] < '0' || text[at] > '9')
      throw RenderError("Format specifier missing precision");
    spec.precision = parse_count(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) {
    throw RenderError("Invalid format specifier '" + std::string(text) + "' for object of type '" +
                      type_name(value) + "'");
  }
  return spec;
}

std::string pad(Interpreter& interpreter, const Spec& spec, const std::string& prefix,
                const std::string& body, char default_align) {
  const std::int64_t length = count_code_points(prefix) + count_code_points(body);
  if (spec.width <= length) return prefix + body;
  const std::int64_t padding = spec.width - length;
  interpreter.check_text(static_cast<std::size_t>(padding) * spec.fill.size() + prefix.size() +
                         body.size());
  const auto fill = [&](std::int64_t count) {
    std::string out;
    for (std::int64_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  switch (spec.align != 0 ? spec.align : default_align) {
    case '<':
      return prefix + body + fill(padding);
    case '^':
      return fill(padding / 2) + prefix + body + fill(padding - padding / 2);
    case '=':
      return prefix + fill(padding) + body;
    default:
      return fill(padding) + prefix + body;
  }
}

std::string sign_of(bool negative, char sign) {
  if (negative) return "-";
  return sign == '-' ? std::string() : std::string(1, sign);
}

std::string format_float(Interpreter& interpreter, double value, const Spec& spec) {
  std::string digits;
  switch (spec.type) {
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'n': {
      const char type = spec.type == 'n' ? 'g' : spec.type;
      digits = float_digits(interpreter, value, spec.precision < 0 ? 6 : spec.precision, type,
                            spec.alternate);
      break;
    }
    case '%':
      digits = float_digits(interpreter, value * 100, spec.precision < 0 ? 6 : spec.precision, 'f',
                            spec.alternate) +
               "%";
      break;
    case 0:
      if (spec.precision < 0) {
        digits = float_text(std::fabs(value));
      } else {
        digits = untyped_digits(interpreter, value, std::max<std::int64_t>(spec.precision, 1));
      }
      break;
    default:
      throw RenderError(std::string("Unknown format code '") + spec.type +
                        "' for object of type 'float'");
  }
  const std::string sign = sign_of(std::signbit(value) && !std::isnan(value), spec.sign);
  return pad(interpreter, spec, sign, grouped_number(digits, spec.grouping), '>');
}

std::string format_integer(Interpreter& interpreter, const Value& value, const Spec& spec) {
  const Int128 number = integer_of(value);
  int base = 10;
  std::string prefix;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n':
      break;
    case 'b':
      base = 2, prefix = "0b";
      break;
    case 'o':
      base = 8, prefix = "0o";
      break;
    case 'x':
      base = 16, prefix = "0x";
      break;
    case 'X':
      base = 16, prefix = "0X";
      break;
    case 'c': {
      if (number < 0 || number > 0x10FFFF || (number >= 0xD800 && number <= 0xDFFF)) {
        throw RenderError("%c arg not in range(0x110000)");
      }
      std::string letter;
      append_code_point(letter, static_cast<CodePoint>(number));
      return pad(interpreter, spec, "", letter, '<');
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case '%':
      return format_float(interpreter, static_cast<double>(number), spec);
    default:
      throw RenderError(std::string("Unknown format code '") + spec.type +
                        "' for object of type '" + type_name(value) + "'");
  }
  if (spec.precision >= 0) throw RenderError("Precision not allowed in integer format specifier");
  std::string digits = integer_text(number < 0 ? -number : number, base, spec.type == 'X');
  if (spec.grouping != 0) digits = group_digits(digits, spec.grouping, base == 10 ? 3 : 4);
  if (!spec.alternate) prefix.clear();
  return pad(interpreter, spec, sign_of(number < 0, spec.sign) + prefix, digits, '>');
}

std::string format_string(Interpreter& interpreter, std::string_view text, const Spec& spec) {
  if (spec.type != 0 && spec.type != 's') {
    throw RenderError(std::string("Unknown format code '") + spec.type +
                      "' for object of type 'str'");
  }
  if (spec.align == '=') throw RenderError("'=' alignment not allowed in string format specifier");
  if (spec.precision >= 0) text = text.substr(0, byte_offset(text, spec.precision));
  return pad(interpreter, spec, "", std::string(text), '<');
}

}  // namespace headrace::jinja
