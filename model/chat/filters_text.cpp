// Filters on text.
#include <algorithm>
#include <array>

#include "model/chat/arguments.h"
#include "model/chat/filter_tables.h"
#include "model/chat/python_format.h"
#include "model/chat/python_json.h"
#include "model/chat/python_text.h"
#include "model/chat/text_methods.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

// What the text filters read their operand as: a str as it is, else str(value).
Value soft_text(Interpreter& interpreter, const Value& value) {
  if (value.is(Kind::kString)) return value;
  interpreter.charge_walk(value);
  return interpreter.text(to_text(value));
}

std::string plain_text(Interpreter& interpreter, const Value& value) {
  interpreter.charge_walk(value);
  return to_text(value);
}

// A filter that maps text to text and has no arguments.
template <std::string (*function)(std::string_view)>
Value map_text(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("filter", arguments, {});
  const Value text = soft_text(interpreter, value);
  interpreter.charge_walk(text);
  return interpreter.text(function(text.text()), text.markup());
}

bool separates_words(CodePoint point) {
  return is_space(point) || point == '-' || point == '(' || point == '{' || point == '[' ||
         point == '<';
}

std::string title_words(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const CodePoint first = next_code_point(text, at);
    if (separates_words(first)) {
      out += text.substr(begin, at - begin);
      continue;
    }
    const std::size_t rest = at;
    while (at < text.size()) {
      std::size_t after = at;
      if (separates_words(next_code_point(text, after))) break;
      at = after;
    }
    out += to_upper(text.substr(begin, rest - begin)) + to_lower(text.substr(rest, at - rest));
  }
  return out;
}

Value filter_trim(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  const Value text = soft_text(interpreter, value);
  interpreter.charge_walk(text);
  const std::string_view stripped = bound.given(0)
                                        ? strip(text.text(), Side::kBoth, bound.string(0))
                                        : strip(text.text(), Side::kBoth);
  return interpreter.text(std::string(stripped), text.markup());
}

Value filter_replace(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"});
  const std::string old = plain_text(interpreter, bound.required(0));
  const std::string fresh = plain_text(interpreter, bound.required(1));
  const std::int64_t count = bound.given(2) ? bound.integer(2) : -1;
  return interpreter.text(
      replace_text(interpreter, plain_text(interpreter, value), {old, fresh, count}));
}

Value filter_center(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  const Value text = soft_text(interpreter, value);
  return interpreter.text(justify(interpreter, text.text(), {bound.integer(0, 80), " ", '^'}),
                          text.markup());
}

Value filter_string(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("string", arguments, {});
  return soft_text(interpreter, value);
}

Value filter_safe(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("safe", arguments, {});
  return interpreter.text(plain_text(interpreter, value), true);
}

Value filter_escape(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("escape", arguments, {});
  interpreter.charge_walk(value);
  return interpreter.text(escape_value(value), true);
}

Value filter_forceescape(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("forceescape", arguments, {});
  return interpreter.text(escape_html(plain_text(interpreter, value)), true);
}

Value filter_format(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Value text = soft_text(interpreter, value);
  if (!arguments.keyword.empty() && !arguments.positional.empty()) {
    throw RenderError("can't handle positional and keyword arguments at the same time");
  }
  const Value values = arguments.keyword.empty() ? interpreter.tuple(arguments.positional)
                                                 : interpreter.dict(arguments.keyword);
  return interpreter.text(percent_format(interpreter, {text.text(), text.markup()}, values),
                          text.markup());
}

Value filter_indent(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  if (value.is(Kind::kUndefined)) throw_undefined(value);
  if (!value.is(Kind::kString)) {
    throw RenderError(std::string("indent() wants a str, not ") + type_name(value));
  }
  std::string indentation;
  if (bound.has(0) && bound.required(0).is(Kind::kString)) {
    indentation = bound.string(0);
  } else {
    const std::int64_t width = std::max<std::int64_t>(bound.integer(0, 4), 0);
    interpreter.check_text(static_cast<std::size_t>(width));
    indentation.assign(static_cast<std::size_t>(width), ' ');
  }
  const bool blank = bound.flag(2, false);
  interpreter.charge_walk(value);
  const std::string ended = value.text() + "\n";  // so that a last empty line counts
  std::string out;
  bool first = true;
  for (const std::string_view line : split_lines(ended, false)) {
    if (!first) out += '\n';
    const bool indented = first ? bound.flag(1, false) : blank || !line.empty();
    if (indented) out += indentation;
    out += line;
    first = false;
    interpreter.charge(1);
    interpreter.check_text(out.size());
  }
  return interpreter.text(std::move(out), value.markup());
}

Value filter_truncate(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::int64_t length = bound.integer(0, 255);
  const std::string_view end = bound.string(2, "...");
  const std::int64_t leeway = bound.given(3) ? bound.integer(3) : 5;
  const std::int64_t end_length = count_code_points(end);
  if (length < end_length) {
    throw RenderError("expected length >= " + std::to_string(end_length) + ", got " +
                      std::to_string(length));
  }
  if (leeway < 0) throw RenderError("expected leeway >= 0, got " + std::to_string(leeway));
  if (interpreter.length(value) - leeway <= length) return value;
  if (!value.is(Kind::kString))
    throw RenderError(std::string("truncate() wants a str, not ") + type_name(value));
  const std::string_view text = value.text();
  interpreter.charge_walk(value);
  std::string_view kept = text.substr(0, byte_offset(text, length - end_length));
  if (!bound.flag(1, false)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return interpreter.text(std::string(kept) + std::string(end), value.markup());
}

Value filter_wordcount(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("wordcount", arguments, {});
  const Value text = soft_text(interpreter, value);
  interpreter.charge_walk(text);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.text().size();) {
    const bool word = is_word(next_code_point(text.text(), at));
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::integer(words);
}

std::string quote_url(std::string_view text, bool for_query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out += c;
    } else if (c == ' ' && for_query) {
      out += '+';
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4U];
      out += "0123456789ABCDEF"[byte & 15U];
    }
  }
  return out;
}

Value filter_urlencode(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("urlencode", arguments, {});
  if (value.is(Kind::kString) || !Cursor::iterable(value)) {
    return interpreter.text(quote_url(plain_text(interpreter, value), false));
  }
  const Value source =
      value.is(Kind::kDict) ? interpreter.view(value, DictViewObject::Part::kItems) : value;
  std::string out;
  Cursor cursor(interpreter, source);
  Value pair;
  while (cursor.next(pair)) {
    const Values parts = interpreter.collect(pair);
    if (parts.size() != 2) throw RenderError("urlencode needs pairs of a key and a value");
    if (!out.empty()) out += '&';
    out += quote_url(plain_text(interpreter, parts[0]), true) + "=" +
           quote_url(plain_text(interpreter, parts[1]), true);
    interpreter.check_text(out.size());
  }
  return interpreter.text(std::move(out));
}

Value filter_xmlattr(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("xmlattr", arguments, {"autospace"});
  if (!value.is(Kind::kDict))
    throw RenderError(std::string("xmlattr needs a dict, not ") + type_name(value));
  interpreter.charge_walk(value);
  std::string out;
  for (const auto& [key, item] : value.dict().entries) {
    if (item.is(Kind::kNone) || item.is(Kind::kUndefined)) continue;
    if (!key.is(Kind::kString)) throw RenderError("xmlattr needs keys that are str");
    if (key.text().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      throw RenderError("Invalid character in attribute name: " + quote_text(key.text()));
    }
    if (!out.empty()) out += ' ';
    out += escape_value(key) + "=\"" + escape_value(item) + "\"";
  }
  if (bound.flag(0, true) && !out.empty()) out.insert(0, " ");
  return interpreter.text(std::move(out));
}

// json.dumps's indent: a number of spaces or a text.
std::string json_indent(Interpreter& interpreter, const Value& indent) {
  if (indent.is(Kind::kString)) return indent.text();
  const std::int64_t width = std::max<std::int64_t>(integer_argument(indent), 0);
  interpreter.check_text(static_cast<std::size_t>(width));
  return std::string(static_cast<std::size_t>(width), ' ');
}

// transformers' tojson: json.dumps without the escaping for HTML of jinja2's own.
Value filter_tojson(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii_only = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.given(1)) {
    style.indent = json_indent(interpreter, bound.required(1));
    style.item_separator = ",";
  }
  if (bound.given(2)) {
    const Values separators = interpreter.collect(bound.required(2));
    if (separators.size() != 2 || !separators[0].is(Kind::kString) ||
        !separators[1].is(Kind::kString)) {
      throw RenderError("tojson's separators must be two str");
    }
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  return interpreter.text(dump_json(interpreter, value, style));
}

constexpr std::array<NamedFilter, 19> kFilters{{
    {"upper", map_text<to_upper>},
    {"lower", map_text<to_lower>},
    {"capitalize", map_text<to_capitalized>},
    {"title", map_text<title_words>},
    {"trim", filter_trim},
    {"replace", filter_replace},
    {"center", filter_center},
    {"string", filter_string},
    {"safe", filter_safe},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"truncate", filter_truncate},
    {"wordcount", filter_wordcount},
    {"urlencode", filter_urlencode},
    {"xmlattr", filter_xmlattr},
    {"tojson", filter_tojson},
}};

}  // namespace

std::span<const NamedFilter> text_filters() {
  return kFilters;
}

}  // namespace headrace::jinja
