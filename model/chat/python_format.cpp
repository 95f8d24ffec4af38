#include "model/chat/python_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "model/chat/python_text.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

// A format specification of str.format, or the like of a % conversion.
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

std::int64_t parse_count(std::string_view text, std::size_t& at) {
  std::int64_t count = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    count = count * 10 + (text[at++] - '0');
    if (count > std::numeric_limits<std::int32_t>::max()) throw RenderError("Too many decimal digits in format string");
  }
  return count;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

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
    if (at >= text.size() || text[at] < '0' || text[at] > '9') throw RenderError("Format specifier missing precision");
    spec.precision = parse_count(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) {
    throw RenderError("Invalid format specifier '" + std::string(text) + "' for object of type '" +
                      type_name(value) + "'");
  }
  return spec;
}

// `prefix` (sign, 0x) stays in front where the padding goes between it and the digits.
std::string pad(Interpreter& interpreter, const Spec& spec, const std::string& prefix, const std::string& body,
                char default_align) {
  const std::int64_t length = count_code_points(prefix) + count_code_points(body);
  if (spec.width <= length) return prefix + body;
  const std::int64_t padding = spec.width - length;
  interpreter.check_text(static_cast<std::size_t>(padding) * spec.fill.size() + prefix.size() + body.size());
  const auto fill = [&](std::int64_t count) {
    std::string out;
    for (std::int64_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  switch (spec.align != 0 ? spec.align : default_align) {
    case '<': return prefix + body + fill(padding);
    case '^': return fill(padding / 2) + prefix + body + fill(padding - padding / 2);
    case '=': return prefix + fill(padding) + body;
    default: return fill(padding) + prefix + body;
  }
}

std::string group_digits(const std::string& digits, char separator, std::size_t every) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string sign_of(bool negative, char sign) {
  if (negative) return "-";
  return sign == '-' ? std::string() : std::string(1, sign);
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
  return group_digits(head, separator, 3) + (whole == std::string::npos ? "" : digits.substr(whole));
}

// A float with a precision but no type: like g, but it keeps one digit behind the point, and turns to the
// exponent one digit earlier.
std::string untyped_digits(Interpreter& interpreter, double value, std::int64_t precision) {
  const std::string scientific = float_digits(interpreter, value, precision - 1, 'e', false);
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
      digits = float_digits(interpreter, value, spec.precision < 0 ? 6 : spec.precision, type, spec.alternate);
      break;
    }
    case '%':
      digits = float_digits(interpreter, value * 100, spec.precision < 0 ? 6 : spec.precision, 'f',
                            spec.alternate) + "%";
      break;
    case 0:
      if (spec.precision < 0) {
        digits = float_text(std::fabs(value));
      } else {
        digits = untyped_digits(interpreter, value, std::max<std::int64_t>(spec.precision, 1));
      }
      break;
    default:
      throw RenderError(std::string("Unknown format code '") + spec.type + "' for object of type 'float'");
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
    case 'n': break;
    case 'b': base = 2, prefix = "0b"; break;
    case 'o': base = 8, prefix = "0o"; break;
    case 'x': base = 16, prefix = "0x"; break;
    case 'X': base = 16, prefix = "0X"; break;
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
    case '%': return format_float(interpreter, static_cast<double>(number), spec);
    default:
      throw RenderError(std::string("Unknown format code '") + spec.type + "' for object of type '" +
                        type_name(value) + "'");
  }
  if (spec.precision >= 0) throw RenderError("Precision not allowed in integer format specifier");
  std::string digits = integer_text(number < 0 ? -number : number, base, spec.type == 'X');
  if (spec.grouping != 0) digits = group_digits(digits, spec.grouping, base == 10 ? 3 : 4);
  if (!spec.alternate) prefix.clear();
  return pad(interpreter, spec, sign_of(number < 0, spec.sign) + prefix, digits, '>');
}

std::string format_string(Interpreter& interpreter, std::string_view text, const Spec& spec) {
  if (spec.type != 0 && spec.type != 's') {
    throw RenderError(std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
  }
  if (spec.align == '=') throw RenderError("'=' alignment not allowed in string format specifier");
  if (spec.precision >= 0) text = text.substr(0, byte_offset(text, spec.precision));
  return pad(interpreter, spec, "", std::string(text), '<');
}

// ---- %

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, FormatText format, const Value& values)
      : interpreter_(interpreter), format_(format), text_(format.text), values_(values) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c != '%') {
        out_ += c;
        continue;
      }
      convert();
      interpreter_.charge(1);
      interpreter_.check_text(out_.size());
    }
    if (next_ < available() && !is_mapping()) {
      throw RenderError("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  bool is_mapping() const {
    return values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is(Kind::kUndefined) ||
           values_.is(Kind::kRange);
  }
  std::size_t available() const { return values_.is(Kind::kTuple) ? values_.items().size() : 1; }

  Value next_value() {
    if (next_ >= available()) throw RenderError("not enough arguments for format string");
    return values_.is(Kind::kTuple) ? values_.items()[next_++] : (++next_, values_);
  }

  char peek() const {
    if (at_ >= text_.size()) throw RenderError("incomplete format");
    return text_[at_];
  }

  std::optional<Value> keyed_value() {
    if (peek() != '(') return std::nullopt;
    const std::size_t begin = ++at_;
    int open = 1;
    while (open > 0) {
      if (at_ >= text_.size()) throw RenderError("incomplete format key");
      if (text_[at_] == '(') ++open;
      if (text_[at_] == ')') --open;
      ++at_;
    }
    if (!values_.is(Kind::kDict)) throw RenderError("format requires a mapping");
    const std::string_view key = text_.substr(begin, at_ - begin - 1);
    const Value* found = values_.dict().find(key);
    if (found == nullptr) throw RenderError("KeyError: " + quote_text(key));
    return *found;
  }

  std::int64_t count_or_star() {
    if (peek() != '*') return parse_count(text_, at_);
    ++at_;
    const Value value = next_value();
    if (!value.is(Kind::kInt)) throw RenderError("* wants int");
    return value.int_value();
  }

  void convert() {
    std::optional<Value> keyed = keyed_value();
    Spec spec;
    bool zero = false;
    for (bool flags = true; flags;) {
      switch (peek()) {
        case '-': spec.align = '<'; break;
        case '+': spec.sign = '+'; break;
        case ' ': spec.sign = spec.sign == '+' ? '+' : ' '; break;
        case '#': spec.alternate = true; break;
        case '0': zero = true; break;
        default: flags = false; continue;
      }
      ++at_;
    }
    spec.width = count_or_star();
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<std::int64_t>(count_or_star(), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    const char type = text_[at_++];
    const bool plain_percent = type == '%' && text_[at_ - 2] == '%';
    if (plain_percent) {
      out_ += '%';
      return;
    }
    spec.type = type;
    const Value value = keyed ? *keyed : next_value();
    if (type == '%') {  // with a width or the like it takes a value all the same
      out_ += '%';
      return;
    }
    out_ += conversion(value, spec, zero);
  }

  std::string conversion(const Value& value, Spec spec, bool zero) {
    const auto zero_pad = [&] {
      if (!zero || spec.align == '<') return;
      spec.fill = "0";
      spec.align = '=';
    };
    switch (spec.type) {
      case 's':
        interpreter_.charge_walk(value);
        spec.type = 0;
        return aligned_text(format_.markup ? escape_value(value) : to_text(value), spec);
      case 'r':
      case 'a':
        interpreter_.charge_walk(value);
        spec.type = 0;
        return aligned_text(format_.markup ? escape_html(to_repr(value)) : to_repr(value), spec);
      case 'c': {
        if (value.is(Kind::kString) && count_code_points(value.text()) == 1) {
          spec.type = 0;
          return aligned_text(value.text(), spec);
        }
        if (!value.is_integer()) throw RenderError("%c requires int or char");
        if (spec.align == 0) spec.align = '>';
        return format_integer(interpreter_, value, spec);
      }
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        zero_pad();
        return integer_conversion(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        if (value.is(Kind::kUndefined)) throw_undefined(value);
        if (!value.is_number()) throw RenderError(std::string("must be real number, not ") + type_name(value));
        zero_pad();
        return format_float(interpreter_, number_of(value), spec);
      }
      default: {
        std::size_t begin = at_ - 1;
        const CodePoint point = next_code_point(text_, begin);
        std::string letter;
        append_code_point(letter, point);
        throw RenderError("unsupported format character '" + letter + "' at index " + std::to_string(at_ - 1));
      }
    }
  }

  std::string aligned_text(const std::string& text, Spec spec) {
    if (spec.align == 0) spec.align = '>';
    return format_string(interpreter_, text, spec);
  }

  std::string integer_conversion(const Value& value, Spec spec) {
    if (value.is(Kind::kUndefined)) throw_undefined(value);
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (!value.is_integer() && !(decimal && value.is(Kind::kFloat))) {
      throw RenderError(std::string("%") + spec.type + " format: " +
                        (decimal ? "a real number" : "an integer") + " is required, not " + type_name(value));
    }
    Value whole = value;
    if (value.is(Kind::kFloat)) {
      constexpr double kLimit = 1.7e38;
      if (!(std::fabs(value.float_value()) < kLimit)) throw RenderError("cannot convert float to integer");
      whole = Value::big_integer(static_cast<Int128>(value.float_value()));
    }
    if (decimal) spec.type = 'd';
    const std::int64_t digits = spec.precision;
    spec.precision = -1;
    if (digits < 0) return format_integer(interpreter_, whole, spec);
    Spec inner;  // a precision is the least number of digits
    inner.type = spec.type;
    inner.fill = "0";
    inner.align = '=';
    inner.width = digits;
    const Int128 number = integer_of(whole);
    const std::string body =
        format_integer(interpreter_, Value::big_integer(number < 0 ? -number : number), inner);
    return pad(interpreter_, spec, sign_of(number < 0, spec.sign), body, '>');
  }

  Interpreter& interpreter_;
  FormatText format_;
  std::string_view text_;
  const Value& values_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
  std::string out_;
};

// ---- str.format

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, FormatText format, const Arguments& arguments)
      : interpreter_(interpreter), markup_(format.markup), arguments_(arguments) {}

  std::string run(std::string_view text, int depth = 2) {
    if (depth < 0) throw RenderError("Max string recursion exceeded");
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at++];
      if (c != '{' && c != '}') {
        out += c;
        continue;
      }
      if (at < text.size() && text[at] == c) {
        out += text[at++];
        continue;
      }
      if (c == '}') throw RenderError("Single '}' encountered in format string");
      const std::size_t end = field_end(text, at);
      out += field(text.substr(at, end - at), depth);
      interpreter_.charge(1);
      interpreter_.check_text(out.size());
      at = end + 1;
    }
    return out;
  }

 private:
  static std::size_t field_end(std::string_view text, std::size_t at) {
    if (at >= text.size()) throw RenderError("Single '{' encountered in format string");
    int open = 1;
    for (; at < text.size(); ++at) {
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return at;
    }
    throw RenderError("expected '}' before end of string");
  }

  // name[!conversion][:spec]
  std::string field(std::string_view text, int depth) {
    std::size_t name_end = 0;
    bool in_brackets = false;
    for (; name_end < text.size(); ++name_end) {
      const char c = text[name_end];
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (!in_brackets && (c == '!' || c == ':')) break;
    }
    Value value = lookup(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) {
        throw RenderError("expected ':' after conversion specifier");
      }
      value = convert(value, rest[1]);
      rest.remove_prefix(2);
    }
    const std::string spec = rest.empty() ? "" : run(rest.substr(1), depth - 1);
    if (markup_ && spec.empty()) return escape_value(value);
    std::string formatted = format_value(interpreter_, value, spec);
    return markup_ ? escape_html(formatted) : formatted;
  }

  Value convert(const Value& value, char conversion) {
    interpreter_.charge_walk(value);
    if (conversion == 's') return interpreter_.text(to_text(value));
    if (conversion == 'r' || conversion == 'a') return interpreter_.text(to_repr(value));
    throw RenderError(std::string("Unknown conversion specifier '") + conversion + "'");
  }

  static bool is_number(std::string_view text) {
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  Value lookup(std::string_view name) {
    std::size_t end = name.find_first_of(".[");
    const std::string_view first = name.substr(0, end);
    Value value = first_value(first);
    while (end < name.size()) {
      if (name[end] == '.') {
        const std::size_t begin = end + 1;
        end = std::min(name.find_first_of(".[", begin), name.size());
        value = interpreter_.attribute(value, std::string(name.substr(begin, end - begin)));
      } else {
        const std::size_t close = name.find(']', end);
        if (close == std::string_view::npos) throw RenderError("Missing ']' in format string");
        const std::string_view key = name.substr(end + 1, close - end - 1);
        value = interpreter_.item(value, is_number(key) ? Value::integer(std::stoll(std::string(key)))
                                                        : interpreter_.text(std::string(key)));
        end = close + 1;
        if (end < name.size() && name[end] != '.' && name[end] != '[') {
          throw RenderError("Only '.' or '[' may follow ']' in format field specifier");
        }
      }
    }
    return value;
  }

  Value first_value(std::string_view name) {
    std::size_t index = 0;
    if (name.empty() || is_number(name)) {
      const bool automatic = name.empty();
      if ((automatic && manual_) || (!automatic && next_ > 0)) {
        throw RenderError("cannot switch between manual field specification and automatic field numbering");
      }
      if (!automatic) manual_ = true;
      index = automatic ? next_++ : static_cast<std::size_t>(std::stoll(std::string(name)));
      if (index >= arguments_.positional.size()) {
        throw RenderError("Replacement index " + std::to_string(index) + " out of range for positional args tuple");
      }
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.keyword) {
      if (key.text() == name) return value;
    }
    throw RenderError("KeyError: " + quote_text(name));
  }

  Interpreter& interpreter_;
  const bool markup_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
  bool manual_ = false;
};

}  // namespace

std::string format_value(Interpreter& interpreter, const Value& value, std::string_view spec) {
  interpreter.charge_walk(value);
  if (spec.empty()) return to_text(value);
  const Spec parsed = parse_spec(spec, value);
  switch (value.kind()) {
    case Kind::kString: return format_string(interpreter, value.text(), parsed);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt: return format_integer(interpreter, value, parsed);
    case Kind::kFloat: return format_float(interpreter, value.float_value(), parsed);
    default:
      throw RenderError(std::string("unsupported format string passed to ") + type_name(value) + ".__format__");
  }
}

std::string percent_format(Interpreter& interpreter, FormatText format, const Value& values) {
  return PercentFormatter(interpreter, format, values).run();
}

std::string brace_format(Interpreter& interpreter, FormatText format, const Arguments& arguments) {
  return BraceFormatter(interpreter, format, arguments).run(format.text);
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string escape_value(const Value& value) {
  return value.markup() ? value.text() : escape_html(to_text(value));
}

}  // namespace headrace::jinja
