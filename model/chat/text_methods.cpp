#include "model/chat/text_methods.h"

#include <algorithm>

#include "model/chat/arguments.h"
#include "model/chat/method_names.h"
#include "model/chat/methods.h"
#include "model/chat/python_format.h"
#include "model/chat/python_text.h"
#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

// Where `part` is in `text`, with Python's rule that the empty text is everywhere.
std::size_t find_from(std::string_view text, std::string_view part, std::size_t from) {
  return from > text.size() ? kNowhere : text.find(part, from);
}

std::vector<std::string_view> split_space(std::string_view text, std::int64_t max_splits) {
  std::vector<std::string_view> parts;
  text = strip(text, Side::kLeft);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<std::int64_t>(parts.size()) >= max_splits) {
      parts.push_back(text);
      break;
    }
    std::size_t end = 0;
    while (end < text.size()) {
      std::size_t after = end;
      if (is_space(next_code_point(text, after))) break;
      end = after;
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::kLeft);
  }
  return parts;
}

std::vector<std::string_view> split_space_from_right(std::string_view text,
                                                     std::int64_t max_splits) {
  std::vector<std::string_view> parts;
  text = strip(text, Side::kRight);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<std::int64_t>(parts.size()) >= max_splits) {
      parts.push_back(text);
      break;
    }
    std::size_t begin = text.size();
    while (begin > 0) {
      std::size_t before = begin;
      if (is_space(previous_code_point(text, before))) break;
      begin = before;
    }
    parts.push_back(text.substr(begin));
    text = strip(text.substr(0, begin), Side::kRight);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

std::string replace_text(Interpreter& interpreter, std::string_view text,
                         const Replacement& replacement) {
  const std::string_view old = replacement.old;
  const std::string_view fresh = replacement.fresh;
  const std::int64_t limit = replacement.count;
  std::string out;
  std::size_t at = 0;
  std::int64_t done = 0;
  const auto more = [&] { return limit < 0 || done < limit; };
  interpreter.charge(text.size() / kBytesPerWeight);
  if (old.empty()) {  // before every code point and at the end
    while (more()) {
      out += fresh;
      ++done;
      interpreter.charge(1);
      interpreter.check_text(out.size());
      if (at >= text.size()) return out;
      const std::size_t begin = at;
      next_code_point(text, at);
      out += text.substr(begin, at - begin);
    }
    out += text.substr(std::min(at, text.size()));
    return out;
  }
  while (more()) {
    const std::size_t found = text.find(old, at);
    if (found == kNowhere) break;
    out += text.substr(at, found - at);
    out += fresh;
    at = found + old.size();
    ++done;
    interpreter.charge(1);
    interpreter.check_text(out.size());
  }
  out += text.substr(at);
  return out;
}

std::string justify(Interpreter& interpreter, std::string_view text,
                    const Justification& justification) {
  const std::int64_t padding = justification.width - count_code_points(text);
  if (padding <= 0) return std::string(text);
  std::size_t total = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(padding), justification.fill.size(), &total))
    total = kNowhere / 2;
  interpreter.check_text(total + text.size());
  std::int64_t left = 0;
  if (justification.align == '>') left = padding;
  // CPython's center: the odd one goes to the left where width and padding are odd both.
  if (justification.align == '^') left = padding / 2 + (padding & justification.width & 1);
  std::string out;
  out.reserve(total + text.size());
  for (std::int64_t i = 0; i < left; ++i) out += justification.fill;
  out += text;
  for (std::int64_t i = left; i < padding; ++i) out += justification.fill;
  return out;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const CodePoint point = next_code_point(text, at);
    if (!is_line_break(point)) continue;
    if (point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::vector<std::string_view> split_text(std::string_view text, const Splitting& splitting) {
  if (!splitting.separator) {
    return splitting.from_right ? split_space_from_right(text, splitting.max_splits)
                                : split_space(text, splitting.max_splits);
  }
  const std::string_view separator = *splitting.separator;
  if (separator.empty()) throw RenderError("empty separator");
  std::vector<std::string_view> parts;
  const auto more = [&] {
    return splitting.max_splits < 0 ||
           static_cast<std::int64_t>(parts.size()) < splitting.max_splits;
  };
  if (splitting.from_right) {
    while (more()) {
      const std::size_t found = text.rfind(separator);
      if (found == kNowhere) break;
      parts.push_back(text.substr(found + separator.size()));
      text = text.substr(0, found);
    }
    parts.push_back(text);
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  while (more()) {
    const std::size_t found = text.find(separator);
    if (found == kNowhere) break;
    parts.push_back(text.substr(0, found));
    text = text.substr(found + separator.size());
  }
  parts.push_back(text);
  return parts;
}

namespace {

// One call of a method of str.
class TextCall {
 public:
  TextCall(Interpreter& interpreter, const MethodObject& method, const Arguments& arguments)
      : interpreter_(interpreter),
        method_(method.method),
        name_(method_name(method.method)),
        self_(method.self),
        text_(self_.text()),
        arguments_(arguments) {
    interpreter.charge_walk(self_);
  }

  Value run() {
    switch (method_) {
      case Method::kUpper:
        return no_arguments(), make(to_upper(text_));
      case Method::kLower:
        return no_arguments(), make(to_lower(text_));
      case Method::kTitle:
        return no_arguments(), make(to_title(text_));
      case Method::kCapitalize:
        return no_arguments(), make(to_capitalized(text_));
      case Method::kSwapCase:
        return no_arguments(), make(swap_case(text_));
      case Method::kCasefold:
        return no_arguments(), make(fold_case(text_));
      case Method::kStrip:
        return stripped(Side::kBoth);
      case Method::kLstrip:
        return stripped(Side::kLeft);
      case Method::kRstrip:
        return stripped(Side::kRight);
      case Method::kSplit:
        return split(false);
      case Method::kRsplit:
        return split(true);
      case Method::kSplitLines:
        return lines();
      case Method::kStartsWith:
        return affixed(true);
      case Method::kEndsWith:
        return affixed(false);
      case Method::kReplace:
        return replaced();
      case Method::kFind:
      case Method::kRfind:
      case Method::kIndex:
      case Method::kRindex:
        return found();
      case Method::kCount:
        return counted();
      case Method::kJoin:
        return joined();
      case Method::kFormat:
        return make(brace_format(interpreter_, {text_, self_.markup()}, arguments_));
      case Method::kFormatMap:
        return format_map();
      case Method::kCenter:
        return justified('^');
      case Method::kLjust:
        return justified('<');
      case Method::kRjust:
        return justified('>');
      case Method::kZfill:
        return zero_filled();
      case Method::kRemovePrefix:
        return without(true);
      case Method::kRemoveSuffix:
        return without(false);
      case Method::kPartition:
        return partitioned(false);
      case Method::kRpartition:
        return partitioned(true);
      case Method::kExpandTabs:
        return expanded();
      case Method::kEscape:
        return no_arguments(), make(escape_html(text_));
      default:
        return predicate();
    }
  }

 private:
  Bound bind(std::initializer_list<std::string_view> names) const {
    return {name_, arguments_, names};
  }
  void no_arguments() const { bind({}); }
  Value make(std::string text) const { return interpreter_.text(std::move(text), self_.markup()); }
  Value make(std::string_view text) const { return make(std::string(text)); }
  Value make_empty() const { return make(std::string()); }

  Value make_list(const std::vector<std::string_view>& parts) const {
    Values items;
    items.reserve(parts.size());
    for (const std::string_view part : parts) items.push_back(make(part));
    return interpreter_.list(std::move(items));
  }

  Value stripped(Side side) const {
    const Bound bound = bind({"chars"});
    if (!bound.given(0)) return make(strip(text_, side));
    interpreter_.charge(text_.size() * bound.string(0).size() / kBytesPerWeight);
    return make(strip(text_, side, bound.string(0)));
  }

  Value split(bool from_right) const {
    const Bound bound = bind({"sep", "maxsplit"});
    Splitting splitting;
    if (bound.given(0)) splitting.separator = bound.string(0);
    splitting.max_splits = bound.integer(1, -1);
    splitting.from_right = from_right;
    return make_list(split_text(text_, splitting));
  }

  Value lines() const {
    const Bound bound = bind({"keepends"});
    return make_list(split_lines(text_, bound.flag(0, false)));
  }

  // The part that optional start and end arguments leave, in code points, and where it begins.
  std::pair<std::string_view, std::int64_t> window(const Bound& bound, std::size_t first) const {
    const std::int64_t size = string_object(self_).length;
    const auto place = [&](std::size_t index, std::int64_t otherwise) {
      const std::int64_t at = bound.given(index) ? bound.integer(index) : otherwise;
      return at < 0 ? std::max<std::int64_t>(at + size, 0) : at;
    };
    const std::int64_t begin = place(first, 0);
    const std::int64_t end = std::min(place(first + 1, size), size);
    if (begin > end) return {std::string_view(), -1};
    const std::size_t from = byte_offset(text_, begin);
    return {text_.substr(from, byte_offset(text_.substr(from), end - begin)), begin};
  }

  Value affixed(bool front) const {
    const Bound bound = bind({front ? "prefix" : "suffix", "start", "end"});
    const auto [text, begin] = window(bound, 1);
    const auto matches = [&, part = text, outside = begin < 0](const Value& affix) {
      if (!affix.is(Kind::kString)) {
        throw RenderError(std::string(name_) + " first arg must be str or a tuple of str, not " +
                          type_name(affix));
      }
      if (outside || affix.text().size() > part.size()) return false;
      return (front ? part.substr(0, affix.text().size())
                    : part.substr(part.size() - affix.text().size())) == affix.text();
    };
    const Value& affix = bound.required(0);
    if (affix.is(Kind::kUndefined))
      throw RenderError(std::string(name_) +
                        " first arg must be str or a tuple of str, not Undefined");
    if (!affix.is(Kind::kTuple)) return Value::boolean(matches(affix));
    interpreter_.charge_walk(affix);
    return Value::boolean(std::any_of(affix.items().begin(), affix.items().end(), matches));
  }

  Value replaced() const {
    const Bound bound = bind({"old", "new", "count"});
    const Value& fresh = bound.required(1);
    const std::string escaped = self_.markup() ? escape_value(fresh) : bound.string(1);
    return make(
        replace_text(interpreter_, text_, {bound.string(0), escaped, bound.integer(2, -1)}));
  }

  Value found() const {
    const bool last = method_ == Method::kRfind || method_ == Method::kRindex;
    const Bound bound = bind({"sub", "start", "end"});
    const std::string& part = bound.string(0);
    const auto [text, begin] = window(bound, 1);
    const std::size_t at = begin < 0 ? kNowhere : last ? text.rfind(part) : text.find(part);
    if (at != kNowhere) return Value::integer(begin + count_code_points(text.substr(0, at)));
    if (method_ == Method::kIndex || method_ == Method::kRindex)
      throw RenderError("substring not found");
    return Value::integer(-1);
  }

  Value counted() const {
    const Bound bound = bind({"sub", "start", "end"});
    const std::string& part = bound.string(0);
    const auto [text, begin] = window(bound, 1);
    if (begin < 0) return Value::integer(0);
    if (part.empty()) return Value::integer(count_code_points(text) + 1);
    std::int64_t count = 0;
    for (std::size_t at = text.find(part); at != kNowhere;
         at = find_from(text, part, at + part.size()))
      ++count;
    return Value::integer(count);
  }

  Value joined() const {
    const Bound bound = bind({"iterable"});
    Cursor cursor(interpreter_, bound.required(0));
    std::string out;
    Value item;
    for (std::int64_t i = 0; cursor.next(item); ++i) {
      if (!item.is(Kind::kString) && !self_.markup()) {
        throw RenderError("sequence item " + std::to_string(i) + ": expected str instance, " +
                          type_name(item) + " found");
      }
      if (i > 0) out += text_;
      out += self_.markup() ? escape_value(item) : item.text();
      interpreter_.check_text(out.size());
    }
    return make(std::move(out));
  }

  Value format_map() const {
    const Bound bound = bind({"mapping"});
    if (!bound.required(0).is(Kind::kDict)) throw RenderError("format_map() needs a dict");
    Arguments named;
    for (const auto& [key, value] : bound.required(0).dict().entries) {
      if (key.is(Kind::kString)) named.keyword.emplace_back(key, value);
    }
    interpreter_.charge(named.keyword.size());
    return make(brace_format(interpreter_, {text_, self_.markup()}, named));
  }

  Value justified(char align) const {
    const Bound bound = bind({"width", "fillchar"});
    const std::string_view fill = bound.string(1, " ");
    if (count_code_points(fill) != 1)
      throw RenderError("The fill character must be exactly one character long");
    return make(justify(interpreter_, text_, {bound.integer(0), fill, align}));
  }

  Value zero_filled() const {
    const Bound bound = bind({"width"});
    const bool sign = !text_.empty() && (text_[0] == '+' || text_[0] == '-');
    const std::string_view rest = text_.substr(sign ? 1 : 0);
    const std::string filled =
        justify(interpreter_, rest, {bound.integer(0) - (sign ? 1 : 0), "0", '>'});
    return make(std::string(text_.substr(0, sign ? 1 : 0)) + filled);
  }

  Value without(bool front) const {
    const Bound bound = bind({front ? "prefix" : "suffix"});
    const std::string& part = bound.string(0);
    if (part.size() > text_.size()) return self_;
    const std::size_t rest = text_.size() - part.size();
    if (front)
      return text_.substr(0, part.size()) == part ? make(text_.substr(part.size())) : self_;
    return text_.substr(rest) == part ? make(text_.substr(0, rest)) : self_;
  }

  Value partitioned(bool from_right) const {
    const Bound bound = bind({"sep"});
    const std::string& separator = bound.string(0);
    if (separator.empty()) throw RenderError("empty separator");
    const std::size_t at = from_right ? text_.rfind(separator) : text_.find(separator);
    if (at != kNowhere) {
      return interpreter_.tuple(
          {make(text_.substr(0, at)), make(separator), make(text_.substr(at + separator.size()))});
    }
    if (from_right) return interpreter_.tuple({make_empty(), make_empty(), make(text_)});
    return interpreter_.tuple({make(text_), make_empty(), make_empty()});
  }

  Value expanded() const {
    const Bound bound = bind({"tabsize"});
    const std::int64_t size = bound.integer(0, 8);
    std::string out;
    std::int64_t column = 0;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t begin = at;
      const CodePoint point = next_code_point(text_, at);
      if (point == '\t') {
        if (size <= 0) continue;
        const std::int64_t spaces = size - column % size;
        interpreter_.check_text(out.size() + static_cast<std::size_t>(spaces));
        out.append(static_cast<std::size_t>(spaces), ' ');
        column += spaces;
        continue;
      }
      out += text_.substr(begin, at - begin);
      column = point == '\n' || point == '\r' ? 0 : column + 1;
    }
    return make(std::move(out));
  }

  bool all_of(bool (*test)(CodePoint)) const {
    for (std::size_t at = 0; at < text_.size();) {
      if (!test(next_code_point(text_, at))) return false;
    }
    return !text_.empty();
  }

  // islower, isupper: all cased letters are of that case, and there is one.
  bool all_cased(bool (*test)(CodePoint)) const {
    bool any = false;
    for (std::size_t at = 0; at < text_.size();) {
      const CodePoint point = next_code_point(text_, at);
      if (!is_cased(point)) continue;
      if (!test(point)) return false;
      any = true;
    }
    return any;
  }

  bool titled() const {
    bool any = false;
    bool after_cased = false;
    for (std::size_t at = 0; at < text_.size();) {
      const CodePoint point = next_code_point(text_, at);
      const bool capital = is_upper(point) || is_title(point);
      if (capital ? after_cased : is_lower(point) && !after_cased) return false;
      after_cased = is_cased(point);
      any |= after_cased;
    }
    return any;
  }

  bool identifier() const {
    std::size_t at = 0;
    if (text_.empty() || !is_identifier_start(next_code_point(text_, at))) return false;
    while (at < text_.size()) {
      if (!is_identifier_part(next_code_point(text_, at))) return false;
    }
    return true;
  }

  Value predicate() const {
    no_arguments();
    switch (method_) {
      case Method::kIsAlnum:
        return Value::boolean(all_of(is_alnum));
      case Method::kIsAlpha:
        return Value::boolean(all_of(is_alpha));
      case Method::kIsAscii:
        return Value::boolean(string_object(self_).ascii());
      case Method::kIsDecimal:
        return Value::boolean(all_of(is_decimal));
      case Method::kIsDigit:
        return Value::boolean(all_of(is_digit));
      case Method::kIsNumeric:
        return Value::boolean(all_of(is_numeric));
      case Method::kIsSpace:
        return Value::boolean(all_of(is_space));
      case Method::kIsPrintable:
        return Value::boolean(text_.empty() || all_of(is_printable));
      case Method::kIsLower:
        return Value::boolean(all_cased(is_lower));
      case Method::kIsUpper:
        return Value::boolean(all_cased(is_upper));
      case Method::kIsTitle:
        return Value::boolean(titled());
      case Method::kIsIdentifier:
        return Value::boolean(identifier());
      default:
        throw RenderError(std::string("the method ") + type_name(self_) + "." + std::string(name_) +
                          " is not supported in chat templates");
    }
  }

  Interpreter& interpreter_;
  const Method method_;
  const std::string_view name_;
  const Value& self_;
  const std::string_view text_;
  const Arguments& arguments_;
};

}  // namespace

Value call_text_method(Interpreter& interpreter, const MethodObject& method,
                       const Arguments& arguments) {
  return TextCall(interpreter, method, arguments).run();
}

}  // namespace headrace::jinja
