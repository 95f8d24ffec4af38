#include "runtime/job/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace headrace {
namespace {

constexpr float kLowestLogprob = -9999.0F;

void append_escape(std::string& out, unsigned char byte) {
  switch (byte) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\u00";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15U];
}

template <typename Number>
void append_number(std::string& out, Number value) {
  std::array<char, 32> digits;  // the longest int64 has 20 characters, the longest float32 15
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), end);
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(text, done, i - done);
    append_escape(out, byte);
    done = i + 1;
  }
  out.append(text, done);
  out += '"';
}

void append_json_logprob(std::string& out, float value) {
  if (std::isnan(value)) {
    out += "null";
    return;
  }
  const std::size_t begin = out.size();
  append_number(out, std::max(value, kLowestLogprob));
  // Readers that guess types from the first values must not take a log-probability for an integer.
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

void append_json_integer(std::string& out, std::int64_t value) {
  append_number(out, value);
}

std::int64_t num_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

}  // namespace headrace
