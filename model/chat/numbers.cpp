#include "model/chat/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "model/chat/unicode.h"

namespace headrace::jinja {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// Takes the sign off.
bool negative_sign(std::string_view& text) {
  if (text.empty() || (text[0] != '-' && text[0] != '+')) return false;
  const bool negative = text[0] == '-';
  text.remove_prefix(1);
  return negative;
}

int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

// Underscores may stand between digits only.
bool underscores_between_digits(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    const bool inside =
        i > 0 && i + 1 < text.size() && digit_of(text[i - 1]) < 36 && digit_of(text[i + 1]) < 36;
    if (!inside) return false;
  }
  return true;
}

}  // namespace

std::optional<Int128> parse_integer(std::string_view text, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36))
    throw RenderError("int() base must be >= 2 and <= 36, or 0");
  text = strip(text, Side::kBoth);
  const bool negative = negative_sign(text);
  const int prefix = prefix_base(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    base = prefix;
    text.remove_prefix(2);
    if (!text.empty() && text[0] == '_') text.remove_prefix(1);
  } else if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos)
      return std::nullopt;
  }
  if (text.empty() || !underscores_between_digits(text)) return std::nullopt;
  Int128 number = 0;
  for (const char c : text) {
    if (c == '_') continue;
    if (digit_of(c) >= base) return std::nullopt;
    if (number > kMaxInteger / base) throw RenderError("an integer has more than 126 bits");
    number = number * base + digit_of(c);
  }
  return negative ? -number : number;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text, Side::kBoth);
  if (!underscores_between_digits(text)) return std::nullopt;
  std::string plain(text);
  plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
  std::string_view rest = plain;
  const bool negative = negative_sign(rest);
  // from_chars takes what float() takes, but for a second sign and nan's payload.
  if (rest.empty() || rest[0] == '-' || rest.find('(') != std::string_view::npos)
    return std::nullopt;
  double number = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (parsed.ptr != rest.data() + rest.size() || parsed.ec == std::errc::invalid_argument)
    return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range)
    number = std::strtod(std::string(rest).c_str(), nullptr);
  return negative ? -number : number;
}

Value truncate_to_integer(double real) {
  constexpr double kLimit = 8.0e37;  // below kMaxInteger
  if (!(std::fabs(real) < kLimit)) throw RenderError("an integer has more than 126 bits");
  return Value::big_integer(static_cast<Int128>(real));
}

Value round_number(const Value& number, std::int64_t digits) {
  if (!number.is(Kind::kFloat)) {
    if (digits >= 0) return Value::big_integer(integer_of(number));
    constexpr std::int64_t kMostDigits = 37;  // of kMaxInteger
    if (digits < -kMostDigits) return Value::integer(0);
    Int128 unit = 1;
    for (std::int64_t i = 0; i < -digits; ++i) unit *= 10;
    const Int128 whole = integer_of(number);
    Int128 quotient = whole / unit;
    const Int128 rest = whole % unit;
    const Int128 twice = rest < 0 ? -rest : rest;
    if (twice > unit - twice || (twice == unit - twice && quotient % 2 != 0))
      quotient += whole < 0 ? -1 : 1;
    return Value::big_integer(quotient * unit);
  }
  const double real = number.float_value();
  constexpr std::int64_t kAllDigits = 323;  // a double has no more
  if (!std::isfinite(real) || digits > kAllDigits) return number;
  if (digits >= 0) {
    char text[700];
    std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), real);
    return Value::real(std::strtod(text, nullptr));
  }
  if (digits < -kAllDigits) return Value::real(std::copysign(0.0, real));
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return Value::real(std::nearbyint(real / unit) * unit);
}

}  // namespace headrace::jinja
