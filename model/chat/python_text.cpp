#include "model/chat/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/chat/interpreter.h"
#include "model/chat/methods.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

void append_hex(std::string& out, char letter, int digits, CodePoint point) {
  out += '\\';
  out += letter;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out += "0123456789abcdef"[point >> shift & 15];
}

void append_repr(std::string& out, const Value& value, int depth);

void append_items(std::string& out, const Values& items, int depth) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, items[i], depth);
  }
}

void append_dict(std::string& out, const DictObject& dict, int depth) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out += ", ";
    first = false;
    append_repr(out, key, depth);
    out += ": ";
    append_repr(out, value, depth);
  }
  out += '}';
}

void append_view(std::string& out, const DictViewObject& view, int depth) {
  const auto part = view.part;
  out += part == DictViewObject::Part::kKeys     ? "dict_keys(["
         : part == DictViewObject::Part::kValues ? "dict_values(["
                                                 : "dict_items([";
  bool first = true;
  for (const auto& [key, value] : view.owner.dict().entries) {
    if (!first) out += ", ";
    first = false;
    if (part == DictViewObject::Part::kItems) out += '(';
    if (part != DictViewObject::Part::kValues) append_repr(out, key, depth);
    if (part == DictViewObject::Part::kItems) out += ", ";
    if (part != DictViewObject::Part::kKeys) append_repr(out, value, depth);
    if (part == DictViewObject::Part::kItems) out += ')';
  }
  out += "])";
}

void append_range(std::string& out, const RangeObject& range) {
  out += "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
  if (range.step != 1) out += ", " + std::to_string(range.step);
  out += ')';
}

// Python shows an address where these have nothing to say; a fixed text stands for it.
std::string opaque(const Value& value) {
  return std::string("<") + type_name(value) + " object>";
}

void append_repr(std::string& out, const Value& value, int depth) {
  if (depth > kMaxValueDepth)
    throw RenderError("maximum recursion depth exceeded while getting the repr of an object");
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      out += "Undefined";
      break;
    case Kind::kNone:
      out += "None";
      break;
    case Kind::kBool:
      out += value.bool_value() ? "True" : "False";
      break;
    case Kind::kInt:
      out += std::to_string(value.int_value());
      break;
    case Kind::kBigInt:
      out += integer_text(integer_of(value));
      break;
    case Kind::kFloat:
      out += float_text(value.float_value());
      break;
    case Kind::kString:
      out += value.markup() ? "Markup(" + quote_text(value.text()) + ")" : quote_text(value.text());
      break;
    case Kind::kList:
      out += '[';
      append_items(out, value.items(), depth + 1);
      out += ']';
      break;
    case Kind::kTuple:
      out += '(';
      append_items(out, value.items(), depth + 1);
      out += value.items().size() == 1 ? ",)" : ")";
      break;
    case Kind::kDict:
      append_dict(out, value.dict(), depth + 1);
      break;
    case Kind::kDictView:
      append_view(out, value.as<DictViewObject>(), depth + 1);
      break;
    case Kind::kRange:
      append_range(out, value.as<RangeObject>());
      break;
    case Kind::kNamespace:
      out += "<Namespace ";
      append_dict(out, value.as<NamespaceObject>().attributes, depth + 1);
      out += '>';
      break;
    case Kind::kMacro: {
      const MacroBody& body = *value.as<MacroObject>().body;
      out += "<Macro " + (body.name.empty() ? "anonymous" : quote_text(body.name)) + ">";
      break;
    }
    case Kind::kMethod:
      out += "<built-in method " + std::string(method_name(value.as<MethodObject>().method)) + ">";
      break;
    default:
      out += opaque(value);
      break;
  }
}

}  // namespace

std::string to_text(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return {};
    case Kind::kString:
      return value.text();
    default:
      return to_repr(value);
  }
}

std::string to_repr(const Value& value) {
  std::string out;
  append_repr(out, value, 0);
  return out;
}

std::string quote_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const CodePoint point = next_code_point(text, at);
    if (point == quote || point == '\\') {
      out += '\\';
      out += static_cast<char>(point);
    } else if (point == '\n') {
      out += "\\n";
    } else if (point == '\r') {
      out += "\\r";
    } else if (point == '\t') {
      out += "\\t";
    } else if (is_printable(point)) {
      out += text.substr(begin, at - begin);
    } else if (point <= 0xFF) {
      append_hex(out, 'x', 2, point);
    } else if (point <= 0xFFFF) {
      append_hex(out, 'u', 4, point);
    } else {
      append_hex(out, 'U', 8, point);
    }
  }
  out += quote;
  return out;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto scientific =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(scientific.ptr - buffer));
  const std::size_t mark = text.find('e');
  int exponent = 0;
  const std::size_t sign = text[mark + 1] == '+' ? 1 : 0;
  std::from_chars(text.data() + mark + 1 + sign, text.data() + text.size(), exponent);
  constexpr int kFirstScientific =
      16;  // Python's repr: fixed notation for 1e-4 up to, not including, 1e16
  if (exponent < -4 || exponent >= kFirstScientific) {
    return std::string(text);  // to_chars writes at least two digits of exponent, as Python does
  }
  std::string digits;
  for (const char c : text.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string out = std::signbit(value) ? "-" : "";
  if (exponent < 0) {
    return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  out += digits.substr(0, whole) + ".";
  return out + (digits.size() > whole ? digits.substr(whole) : "0");
}

std::string integer_text(Int128 value, int base, bool upper) {
  if (value == 0) return "0";
  const char* letters = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  const bool negative = value < 0;
  while (value != 0) {
    const int digit = static_cast<int>(value % base);
    out += letters[digit < 0 ? -digit : digit];
    value /= base;
  }
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace headrace::jinja
