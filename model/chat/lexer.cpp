#include "model/chat/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

// Line ends become \n, and a newline that ends the source goes.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit_of(char c, int base) {
  if (c >= '0' && c <= '9') return c - '0' < base;
  const char lower = static_cast<char>(c | 0x20);
  return base == 16 && lower >= 'a' && lower <= 'f';
}

int digit_value(char c) {
  return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_data();
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  struct Tag {
    std::size_t begin = kNowhere;
    std::size_t end = 0;  // behind the sign
    char kind = 0;        // '%', '{', '#', or 'r' for a raw block's begin
    char sign = 0;        // '-', '+' or 0
  };

  // Template text up to the next tag, and that tag.
  void lex_data() {
    const Tag tag = find_tag();
    if (tag.begin == kNowhere) {
      push_data(source_.substr(at_));
      at_ = source_.size();
      return;
    }
    take_data(source_.substr(at_, tag.begin - at_), tag);
    advance_to(tag.end);
    switch (tag.kind) {
      case '#':
        lex_comment();
        break;
      case 'r':
        lex_raw();
        break;
      case '%':
        lex_code(TokenKind::kBlockBegin);
        break;
      default:
        lex_code(TokenKind::kVariableBegin);
        break;
    }
  }

  Tag find_tag() const {
    Tag tag;
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      const char second = source_[i + 1];
      if (source_[i] != '{' || (second != '%' && second != '{' && second != '#')) continue;
      tag.begin = i;
      tag.kind = second;
      tag.end = i + 2;
      tag.sign = sign_at(tag.end);
      if (tag.sign != 0) ++tag.end;
      if (const std::size_t raw = raw_begin_end(tag); raw != kNowhere) {
        tag.kind = 'r';
        tag.end = raw;
      }
      break;
    }
    return tag;
  }

  char sign_at(std::size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  std::size_t skip_space(std::size_t at) const {
    while (at < source_.size()) {
      std::size_t after = at;
      if (!is_space(next_code_point(source_, after))) break;
      at = after;
    }
    return at;
  }

  bool looking_at(std::size_t at, std::string_view text) const {
    return source_.substr(at, text.size()) == text;
  }

  // Where a raw block's text begins if `tag` opens one.
  std::size_t raw_begin_end(const Tag& tag) const {
    if (tag.kind != '%') return kNowhere;
    std::size_t at = skip_space(tag.end);
    if (!looking_at(at, "raw")) return kNowhere;
    at = skip_space(at + 3);
    if (looking_at(at, "-%}")) return skip_space(at + 3);
    return looking_at(at, "%}") ? at + 2 : kNowhere;
  }

  // Emits the text before a tag, stripped as the tag's sign and lstrip_blocks say.
  void take_data(std::string_view text, const Tag& tag) {
    if (tag.sign == '-') {
      push_data(strip(text, Side::kRight));
    } else if (tag.sign != '+' && tag.kind != '{') {
      push_data(without_indentation(text));
    } else {
      push_data(text);
    }
  }

  std::string_view without_indentation(std::string_view text) const {
    const std::size_t newline = text.rfind('\n');
    const std::size_t line = newline == kNowhere ? 0 : newline + 1;
    if (line == 0 && !line_starting_) return text;
    return strip(text.substr(line), Side::kBoth).empty() ? text.substr(0, line) : text;
  }

  // A comment or raw block that opens at the very end is nothing, as in jinja2.
  void lex_comment() {
    const std::size_t close = source_.find("#}", at_);
    if (at_ >= source_.size()) return;
    if (close == kNowhere) throw SyntaxError(line_, "Missing end of comment tag");
    advance_to(tag_tail(close, close > at_ ? source_[close - 1] : '\0'));
  }

  // The place behind a closing tag at `close` (two bytes): a "-" before it eats whitespace, a "+"
  // keeps the newline, otherwise trim_blocks eats one.
  std::size_t tag_tail(std::size_t close, char sign) const {
    const std::size_t after = close + 2;
    if (sign == '-') return skip_space(after);
    const bool eats_newline = sign != '+' && after < source_.size() && source_[after] == '\n';
    return eats_newline ? after + 1 : after;
  }

  void lex_raw() {
    for (std::size_t open = source_.find("{%", at_); open != kNowhere;
         open = source_.find("{%", open + 1)) {
      Tag tag;
      tag.begin = open;
      tag.kind = '%';
      tag.sign = sign_at(open + 2);
      std::size_t at = skip_space(open + 2 + (tag.sign != 0 ? 1 : 0));
      if (!looking_at(at, "endraw")) continue;
      at = skip_space(at + 6);
      const char sign = sign_at(at);
      if (sign != 0) ++at;
      if (!looking_at(at, "%}")) continue;
      take_data(source_.substr(at_, open - at_), tag);
      advance_to(tag_tail(at, sign));
      return;
    }
    if (at_ < source_.size()) throw SyntaxError(line_, "Missing end of raw directive");
  }

  // The tokens between a tag's begin and its end.
  void lex_code(TokenKind begin) {
    const bool block = begin == TokenKind::kBlockBegin;
    push(begin, block ? "{%" : "{{");
    std::string open;  // brackets that wait for their partner
    while (true) {
      if (open.empty() && end_of_tag(block)) return;
      if (at_ >= source_.size()) return;  // the parser reports the end of the template
      lex_token(open);
    }
  }

  bool end_of_tag(bool block) {
    const char sign = sign_at(at_);
    const std::string_view close = block ? "%}" : "}}";
    const bool signed_end = (sign == '-' || (sign == '+' && block)) && looking_at(at_ + 1, close);
    if (!signed_end && !looking_at(at_, close)) return false;
    push(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, std::string(close));
    const std::size_t closing = signed_end ? at_ + 1 : at_;
    if (block) {
      advance_to(tag_tail(closing, signed_end ? sign : '\0'));
    } else {
      advance_to(signed_end ? skip_space(closing + 2) : closing + 2);
    }
    return true;
  }

  void lex_token(std::string& open) {
    if (const std::size_t after = skip_space(at_); after != at_) {
      advance_to(after);
      return;
    }
    const char c = source_[at_];
    if (c >= '0' && c <= '9') {
      lex_number();
    } else if (c == '\'' || c == '"') {
      lex_string(c);
    } else if (!lex_name()) {
      lex_operator(open);
    }
  }

  std::size_t digits(std::size_t at, int base) const {  // digits, single underscores between them
    while (at < source_.size()) {
      const std::size_t next = source_[at] == '_' ? at + 1 : at;
      if (next >= source_.size() || !is_digit_of(source_[next], base)) break;
      at = next + 1;
    }
    return at;
  }

  // The end of a float at at_, or nothing.
  std::optional<std::size_t> float_end() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return std::nullopt;
    const std::size_t whole = digits(at_, 10);
    std::size_t end = whole;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit_of(source_[end + 1], 10)) {
      end = digits(end + 1, 10);
    }
    if (end < source_.size() && (source_[end] | 0x20) == 'e') {
      std::size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
        ++exponent;
      if (exponent < source_.size() && is_digit_of(source_[exponent], 10))
        return digits(exponent, 10);
    }
    return end > whole ? std::optional(end) : std::nullopt;
  }

  void lex_number() {
    std::string plain;
    const auto take = [&](std::size_t end) {
      plain = source_.substr(at_, end - at_);
      plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
    };
    if (const auto end = float_end()) {
      take(*end);
      double number = 0;
      // Out of range leaves 0; Python has infinity for what is too large.
      const auto parsed = std::from_chars(plain.data(), plain.data() + plain.size(), number);
      if (parsed.ec == std::errc::result_out_of_range) number = std::strtod(plain.c_str(), nullptr);
      push(TokenKind::kFloat, plain).number = Value::real(number);
      advance_to(*end);
      return;
    }
    int base = 10;
    std::size_t begin = at_;
    std::size_t end = 0;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char mark = static_cast<char>(source_[at_ + 1] | 0x20);
      const int wanted = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      if (wanted != 10 && digits(at_ + 2, wanted) > at_ + 2) {
        base = wanted;
        begin = at_ + 2;
      }
    }
    if (base != 10) {
      end = digits(begin, base);
    } else if (source_[at_] == '0') {
      end = at_ + 1;  // a zero is followed by zeros only
      while (end < source_.size() && (source_[end] == '0' || looking_at(end, "_0"))) {
        end += source_[end] == '0' ? 1 : 2;
      }
    } else {
      end = digits(at_, 10);
    }
    const Value number = parse_integer(source_.substr(begin, end - begin), base);
    push(TokenKind::kInteger, std::string(source_.substr(at_, end - at_))).number = number;
    advance_to(end);
  }

  Value parse_integer(std::string_view text, int base) const {
    Int128 number = 0;
    for (const char c : text) {
      if (c == '_') continue;
      number = number > kMaxInteger / base ? kMaxInteger + 1 : number * base + digit_value(c);
      if (number > kMaxInteger) throw SyntaxError(line_, "an integer has more than 126 bits");
    }
    return Value::big_integer(number);
  }

  void lex_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) {
      throw SyntaxError(line_, std::string("unexpected char ") + (quote == '"' ? "'\"'" : "\"'\"") +
                                   ": a string does not end");
    }
    push(TokenKind::kString, decode_string(source_.substr(at_ + 1, end - at_ - 1)));
    advance_to(end + 1);
  }

  // Python's unicode-escape codec over text in which everything beyond ASCII has been escaped, as
  // jinja2 reads its strings. (So a backslash before such a letter escapes the backslash of its
  // escape.)
  std::string decode_string(std::string_view raw) const {
    std::string out;
    out.reserve(raw.size());
    for (std::size_t i = 0; i < raw.size();) {
      if (raw[i] != '\\') {
        out += raw[i++];
        continue;
      }
      if (++i >= raw.size()) throw SyntaxError(line_, "\\ at end of string");
      if (static_cast<signed char>(raw[i]) < 0) {
        append_escaped(out, next_code_point(raw, i));
        continue;
      }
      i = decode_escape(raw, i, out);
    }
    return out;
  }

  static void append_escaped(std::string& out, CodePoint point) {
    const int width = point > 0xFFFF ? 8 : point > 0xFF ? 4 : 2;
    out += '\\';
    out += width == 8 ? 'U' : width == 4 ? 'u' : 'x';
    for (int shift = 4 * (width - 1); shift >= 0; shift -= 4)
      out += "0123456789abcdef"[point >> shift & 15];
  }

  std::size_t decode_escape(std::string_view raw, std::size_t i, std::string& out) const {
    const char c = raw[i++];
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    if (const std::size_t known = kNames.find(c); known != kNowhere) {
      out += kValues[known];
    } else if (c == '\n') {
      // An escaped line end is nothing.
    } else if (is_digit_of(c, 8)) {
      CodePoint point = digit_value(c);
      for (int more = 0; more < 2 && i < raw.size() && is_digit_of(raw[i], 8); ++more) {
        point = point * 8 + digit_value(raw[i++]);
      }
      append_code_point(out, point);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return decode_hex(raw, i, c, out);
    } else if (c == 'N') {
      throw SyntaxError(line_, "\\N{...} in a string is not supported; write \\u");
    } else {
      out += '\\';
      out += c;
    }
    return i;
  }

  std::size_t decode_hex(std::string_view raw, std::size_t i, char kind, std::string& out) const {
    const int width = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    std::int64_t point = 0;
    for (int n = 0; n < width; ++n, ++i) {
      if (i >= raw.size() || !is_digit_of(raw[i], 16)) {
        throw SyntaxError(line_, std::string("truncated \\") + kind + " escape");
      }
      point = point * 16 + digit_value(raw[i]);
    }
    if (point > 0x10FFFF) throw SyntaxError(line_, "illegal Unicode character");
    if (point >= 0xD800 && point <= 0xDFFF) {
      throw SyntaxError(line_, "a string holds half of a surrogate pair, which no text may hold");
    }
    append_code_point(out, static_cast<CodePoint>(point));
    return i;
  }

  bool lex_name() {
    std::size_t end = at_;
    if (!is_identifier_start(next_code_point(source_, end))) return false;
    while (end < source_.size()) {
      std::size_t after = end;
      if (!is_identifier_part(next_code_point(source_, after))) break;
      end = after;
    }
    push(TokenKind::kName, std::string(source_.substr(at_, end - at_)));
    advance_to(end);
    return true;
  }

  void lex_operator(std::string& open) {
    std::string_view text = source_.substr(at_, 2);
    if (text != "//" && text != "**" && text != "==" && text != "!=" && text != ">=" &&
        text != "<=") {
      text = text.substr(0, 1);
    }
    const char c = text[0];
    if (text.size() == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(c) == kNowhere) {
      std::size_t end = at_;
      next_code_point(source_, end);
      throw SyntaxError(line_, "unexpected char '" + std::string(source_.substr(at_, end - at_)) +
                                   "' at " + std::to_string(at_));
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') close_bracket(c, open);
    push(TokenKind::kOperator, std::string(text));
    advance_to(at_ + text.size());
  }

  void close_bracket(char c, std::string& open) const {
    if (open.empty()) throw SyntaxError(line_, std::string("unexpected '") + c + "'");
    if (open.back() != c) {
      throw SyntaxError(line_,
                        std::string("unexpected '") + c + "', expected '" + open.back() + "'");
    }
    open.pop_back();
  }

  Token& push(TokenKind kind, std::string text) {
    tokens_.push_back(Token{kind, line_, std::move(text), Value()});
    return tokens_.back();
  }

  void push_data(std::string_view text) {
    if (!text.empty()) push(TokenKind::kData, std::string(text));
  }

  // Also remembers whether the next text begins a line, for lstrip_blocks.
  void advance_to(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
    line_starting_ = at_ == 0 || source_[at_ - 1] == '\n';
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (const auto bad = find_invalid_utf8(source)) {
    const auto line =
        1 + std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(*bad), '\n');
    throw SyntaxError(static_cast<int>(line), "invalid UTF-8 at byte " + std::to_string(*bad));
  }
  const std::string normal = normalize(source);
  return Lexer(normal).run();
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "end of template";
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kString:
      return "string";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    default:
      return token.text;
  }
}

}  // namespace headrace::jinja
