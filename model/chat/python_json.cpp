#include "model/chat/python_json.h"

#include <algorithm>
#include <cmath>

#include "model/chat/python_text.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

using Entries = std::vector<std::pair<Value, Value>>;

class Dumper {
 public:
  Dumper(Interpreter& interpreter, const JsonStyle& style)
      : interpreter_(interpreter), style_(style) {}

  std::string run(const Value& value) {
    interpreter_.charge_walk(value);
    dump(value, 0);
    return std::move(out_);
  }

 private:
  void dump(const Value& value, int level) {
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        break;
      case Kind::kBool:
        out_ += value.bool_value() ? "true" : "false";
        break;
      case Kind::kInt:
      case Kind::kBigInt:
        out_ += integer_text(integer_of(value));
        break;
      case Kind::kFloat:
        out_ += number(value.float_value());
        break;
      case Kind::kString:
        dump_text(value.text());
        break;
      case Kind::kList:
      case Kind::kTuple:
        dump_items(value.items(), level);
        break;
      case Kind::kDict:
        dump_dict(value.dict(), level);
        break;
      default:
        throw RenderError(std::string("Object of type ") + type_name(value) +
                          " is not JSON serializable");
    }
    interpreter_.check_text(out_.size());
  }

  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_text(value);
  }

  void dump_items(const Values& items, int level) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(level + 1);
      dump(items[i], level + 1);
    }
    new_line(level);
    out_ += ']';
  }

  void dump_dict(const DictObject& dict, int level) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    const Entries sorted = style_.sort_keys ? sorted_entries(dict) : Entries();
    out_ += '{';
    bool first = true;
    for (const auto& [key, value] : style_.sort_keys ? sorted : dict.entries) {
      if (!first) out_ += style_.item_separator;
      first = false;
      new_line(level + 1);
      dump_text(key_text(key));
      out_ += style_.key_separator;
      dump(value, level + 1);
    }
    new_line(level);
    out_ += '}';
  }

  Entries sorted_entries(const DictObject& dict) {
    Entries entries = dict.entries;
    // Keys that do not compare are found before sorting: a comparison that throws inside std::sort
    // is allowed, but which pair it meets first is not fixed.
    for (const auto& entry : entries) ordered(entries[0].first, entry.first, Order::kLess);
    interpreter_.charge(entries.size());
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return ordered(a.first, b.first, Order::kLess);
    });
    return entries;
  }

  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return key.text();
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return key.bool_value() ? "true" : "false";
      case Kind::kInt:
      case Kind::kBigInt:
        return integer_text(integer_of(key));
      case Kind::kFloat:
        return number(key.float_value());
      default:
        throw RenderError(std::string("keys must be str, int, float, bool or None, not ") +
                          type_name(key));
    }
  }

  void new_line(int level) {
    if (!style_.indent) return;
    interpreter_.check_text(out_.size() + style_.indent->size() * static_cast<std::size_t>(level));
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += *style_.indent;
  }

  void dump_text(std::string_view text) {
    interpreter_.check_text(out_.size() + text.size());
    out_ += '"';
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (static_cast<signed char>(c) < 0 || c == 0x7F) {
        const std::size_t begin = at;
        const CodePoint point = next_code_point(text, at);
        if (style_.ascii_only) {
          dump_escaped(point);
        } else {
          out_ += text.substr(begin, at - begin);
        }
        continue;
      }
      ++at;
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\f':
          out_ += "\\f";
          break;
        case '\b':
          out_ += "\\b";
          break;
        default:
          if (c < ' ') {
            dump_unit(c);
          } else {
            out_ += c;
          }
      }
    }
    out_ += '"';
  }

  void dump_escaped(CodePoint point) {
    if (point > 0xFFFF) {  // as a surrogate pair
      const CodePoint offset = point - 0x10000;
      dump_unit(0xD800 + (offset >> 10));
      dump_unit(0xDC00 + (offset & 0x3FF));
    } else {
      dump_unit(point);
    }
  }

  void dump_unit(CodePoint unit) {
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out_ += "0123456789abcdef"[unit >> shift & 15];
  }

  Interpreter& interpreter_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string dump_json(Interpreter& interpreter, const Value& value, const JsonStyle& style) {
  return Dumper(interpreter, style).run(value);
}

}  // namespace headrace::jinja
