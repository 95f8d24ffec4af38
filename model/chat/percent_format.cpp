#include "model/chat/python_format.h"

#include <algorithm>
#include <optional>

#include "model/chat/format_spec.h"
#include "model/chat/numbers.h"
#include "model/chat/python_text.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

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
        case '-':
          spec.align = '<';
          break;
        case '+':
          spec.sign = '+';
          break;
        case ' ':
          spec.sign = spec.sign == '+' ? '+' : ' ';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          zero = true;
          break;
        default:
          flags = false;
          continue;
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
    if (type == '%' && text_[at_ - 2] == '%') {
      out_ += '%';
      return;
    }
    spec.type = type;
    const Value value = keyed ? *keyed : next_value();
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
        if (!value.is_number())
          throw RenderError(std::string("must be real number, not ") + type_name(value));
        zero_pad();
        return format_float(interpreter_, number_of(value), spec);
      }
      default: {
        std::size_t begin = at_ - 1;
        const CodePoint point = next_code_point(text_, begin);
        std::string letter;
        append_code_point(letter, point);
        throw RenderError("unsupported format character '" + letter + "' at index " +
                          std::to_string(at_ - 1));
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
      throw RenderError(std::string("%") + spec.type +
                        " format: " + (decimal ? "a real number" : "an integer") +
                        " is required, not " + type_name(value));
    }
    Value whole = value;
    if (value.is(Kind::kFloat)) {
      whole = truncate_to_integer(value.float_value());
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

}  // namespace

std::string percent_format(Interpreter& interpreter, FormatText format, const Value& values) {
  return PercentFormatter(interpreter, format, values).run();
}

}  // namespace headrace::jinja
