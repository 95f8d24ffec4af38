#include "runtime/job/field_readers.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "runtime/job/json_line.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

// A value as a message shows it: short, and cut between characters.
std::string shown(const Json& value) {
  constexpr std::size_t kMaxShown = 60;
  if (value.is_structured()) return std::string(json_kind(value));
  std::string text = value.dump();
  if (text.size() <= kMaxShown) return text;
  std::size_t end = kMaxShown;
  while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

// Exact conversion of a number that has no fraction and fits.
bool as_int64(const Json& value, std::int64_t& out) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    out = static_cast<std::int64_t>(number);
    return number <= static_cast<std::uint64_t>(INT64_MAX);
  }
  if (value.is_number_integer()) {
    out = value.get<std::int64_t>();
    return true;
  }
  if (!value.is_number_float()) return false;
  const auto number = value.get<double>();
  constexpr double kLimit = 9007199254740992.0;  // 2^53: beyond it doubles skip integers
  if (!(std::fabs(number) <= kLimit) || number != std::floor(number)) return false;
  out = static_cast<std::int64_t>(number);
  return true;
}

std::string describe(FloatRange range) {
  const bool open_ended = std::isinf(range.max);
  if (open_ended && range.min_excluded) return fmt::format("a number above {}", range.min);
  if (open_ended) return fmt::format("a number of at least {}", range.min);
  return fmt::format("a number {} {} and at most {}", range.min_excluded ? "above" : "of at least",
                     range.min, range.max);
}

}  // namespace

void refuse(std::string code, std::string message) {
  throw LineFailure{{std::move(code), std::move(message)}};
}

void refuse_value(std::string_view name, std::string_view expected, const Json& value) {
  refuse("invalid_request", fmt::format("{}: expected {}, got {}", name, expected, shown(value)));
}

std::int64_t read_integer(std::string_view name, const Json& value, IntegerRange range) {
  std::int64_t number = 0;
  if (as_int64(value, number) && number >= range.min && number <= range.max) return number;
  refuse_value(name, fmt::format("an integer from {} to {}", range.min, range.max), value);
}

float read_float(std::string_view name, const Json& value, FloatRange range) {
  if (value.is_number()) {
    const auto number = static_cast<float>(value.get<double>());
    const bool above = range.min_excluded ? number > range.min : number >= range.min;
    if (above && number <= range.max && std::isfinite(number)) return number;
  }
  refuse_value(name, describe(range), value);
}

bool read_bool(std::string_view name, const Json& value) {
  if (!value.is_boolean()) refuse_value(name, "true or false", value);
  return value.get<bool>();
}

const std::string& read_string(std::string_view name, const Json& value) {
  if (!value.is_string()) refuse_value(name, "a string", value);
  return value.get_ref<const std::string&>();
}

std::vector<TokenId> read_token_ids(std::string_view name, const Json& value, int vocab_size) {
  if (!value.is_array()) refuse_value(name, "a list of token ids", value);
  std::vector<TokenId> ids;
  ids.reserve(value.size());
  for (const Json& id : value) {
    ids.push_back(static_cast<TokenId>(read_integer(name, id, {0, vocab_size - 1})));
  }
  return ids;
}

}  // namespace headrace
