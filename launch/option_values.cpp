#include "launch/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace headrace {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double bytes;
};

constexpr std::array kUnits = {Unit{"", 1.0},
                               Unit{"b", 1.0},
                               Unit{"kb", 1e3},
                               Unit{"mb", 1e6},
                               Unit{"gb", 1e9},
                               Unit{"tb", 1e12},
                               Unit{"kib", 1024.0},
                               Unit{"mib", 1048576.0},
                               Unit{"gib", 1073741824.0},
                               Unit{"tib", 1099511627776.0}};

constexpr std::string_view kBytesAccepted =
    "a size in bytes such as 8GiB, 512MB or 1073741824 is expected";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string describe(IntRange range) {
  const IntRange all;
  if (range.min == all.min && range.max == all.max) return "an integer is expected";
  if (range.max == all.max) return fmt::format("an integer of at least {} is expected", range.min);
  if (range.min == all.min) return fmt::format("an integer of at most {} is expected", range.max);
  return fmt::format("an integer from {} to {} is expected", range.min, range.max);
}

std::string describe(RealRange range) {
  if (std::isinf(range.min) && std::isinf(range.max)) return "a number is expected";
  if (std::isinf(range.max)) return fmt::format("a number of at least {} is expected", range.min);
  if (std::isinf(range.min)) return fmt::format("a number of at most {} is expected", range.max);
  return fmt::format("a number from {} to {} is expected", range.min, range.max);
}

/// The number of letters to insert, delete, exchange or swap with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  std::iota(d[0].begin(), d[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    d[i][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t exchanged = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, exchanged});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::int64_t parse_integer(std::string_view text, IntRange range) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < range.min || value > range.max) {
    throw std::invalid_argument(describe(range));
  }
  return value;
}

double parse_real(std::string_view text, RealRange range) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  // Written so that a NaN fails too.
  const bool inside = value >= range.min && value <= range.max && std::isfinite(value);
  if (error != std::errc{} || stop != end || !inside) throw std::invalid_argument(describe(range));
  return value;
}

bool parse_boolean(std::string_view text) {
  const std::string word = lower(text);
  for (const std::string_view yes : {"true", "yes", "on", "1"}) {
    if (word == yes) return true;
  }
  for (const std::string_view no : {"false", "no", "off", "0"}) {
    if (word == no) return false;
  }
  throw std::invalid_argument("true or false is expected");
}

ByteSize parse_byte_size(std::string_view text) {
  std::uint64_t whole = 0;
  const char* end = text.data() + text.size();
  if (const auto r = std::from_chars(text.data(), end, whole);
      r.ec == std::errc{} && r.ptr == end) {
    return {whole};  // exact beyond 2^53, where a double is not
  }
  double number = 0.0;
  const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  const std::string name = lower(std::string_view(stop, static_cast<std::size_t>(end - stop)));
  const auto* unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == name; });
  if (error != std::errc{} || unit == kUnits.end() || !(number >= 0.0)) {
    throw std::invalid_argument(std::string(kBytesAccepted));
  }
  const double bytes = number * unit->bytes;
  constexpr double kLimit = 9.2e18;  // below 2^63: sums of a few sizes stay in range
  if (!(bytes <= kLimit)) throw std::invalid_argument(std::string(kBytesAccepted));
  return {static_cast<std::uint64_t>(bytes)};
}

std::string byte_size_text(ByteSize size) {
  constexpr std::array kNames = {"", "KiB", "MiB", "GiB", "TiB"};
  std::uint64_t n = size.bytes;
  std::size_t unit = 0;
  while (n != 0 && n % 1024 == 0 && unit + 1 < kNames.size()) {
    n /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", n, kNames[unit]);
}

std::vector<std::string> isa_choices() {
  return {"auto", "amx", "amx_emulated", "avx2", "avx512", "neon", "no_amx", "portable"};
}

std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(word, candidate);
    // An abbreviation is one slip, however many letters it lacks.
    if (word.size() >= 3 && candidate.starts_with(word))
      distance = std::min<std::size_t>(distance, 1);
    if (distance < best_distance && distance < word.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace headrace
