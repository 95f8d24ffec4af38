#include "model/chat/python_format.h"

#include <algorithm>

#include "model/chat/format_spec.h"
#include "model/chat/python_text.h"

namespace headrace::jinja {
namespace {

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
  // Brackets in the name of a field may hold braces; its specification may hold fields.
  static std::size_t field_end(std::string_view text, std::size_t at) {
    if (at >= text.size()) throw RenderError("Single '{' encountered in format string");
    bool in_name = true;
    bool in_brackets = false;
    int open = 1;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      if (in_name && c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (in_brackets) continue;
      if (c == ':' || c == '!') in_name = false;
      if (c == '{' && in_name) throw RenderError("unexpected '{' in field name");
      if (c == '{') ++open;
      if (c == '}' && --open == 0) return at;
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
    return !text.empty() && text.size() < 10 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  Value lookup(std::string_view name) {
    std::size_t end = name.find_first_of(".[");
    const std::string_view first = name.substr(0, end);
    Value value = name.empty() ? numbered_value() : first_value(first, first.size() == name.size());
    while (end < name.size()) {
      if (name[end] == '.') {
        const std::size_t begin = end + 1;
        end = std::min(name.find_first_of(".[", begin), name.size());
        value = interpreter_.attribute(value, std::string(name.substr(begin, end - begin)));
      } else {
        const std::size_t close = name.find(']', end);
        if (close == std::string_view::npos) throw RenderError("Missing ']' in format string");
        const std::string_view key = name.substr(end + 1, close - end - 1);
        value =
            interpreter_.item(value, is_number(key) ? Value::integer(std::stoll(std::string(key)))
                                                    : interpreter_.text(std::string(key)));
        end = close + 1;
        if (end < name.size() && name[end] != '.' && name[end] != '[') {
          throw RenderError("Only '.' or '[' may follow ']' in format field specifier");
        }
      }
    }
    return value;
  }

  Value positional_value(std::size_t index) const {
    if (index < arguments_.positional.size()) return arguments_.positional[index];
    throw RenderError("Replacement index " + std::to_string(index) +
                      " out of range for positional args tuple");
  }

  static constexpr const char* kMixedNumbering =
      "cannot switch between manual field specification and automatic field numbering";

  // {}: the next argument.
  Value numbered_value() {
    if (manual_) throw RenderError(kMixedNumbering);
    return positional_value(next_++);
  }

  // Like string.Formatter, only a field that is nothing but a number rules automatic numbering out.
  Value first_value(std::string_view name, bool whole) {
    if (is_number(name)) {
      if (whole && next_ > 0) throw RenderError(kMixedNumbering);
      manual_ = manual_ || whole;
      return positional_value(static_cast<std::size_t>(std::stoll(std::string(name))));
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
    case Kind::kString:
      return format_string(interpreter, value.text(), parsed);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
      return format_integer(interpreter, value, parsed);
    case Kind::kFloat:
      return format_float(interpreter, value.float_value(), parsed);
    default:
      throw RenderError(std::string("unsupported format string passed to ") + type_name(value) +
                        ".__format__");
  }
}

std::string brace_format(Interpreter& interpreter, FormatText format, const Arguments& arguments) {
  return BraceFormatter(interpreter, format, arguments).run(format.text);
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string escape_value(const Value& value) {
  return value.markup() ? value.text() : escape_html(to_text(value));
}

}  // namespace headrace::jinja
