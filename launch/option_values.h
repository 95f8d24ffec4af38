// The text of an option turned into a typed value within its range. Every function throws
// std::invalid_argument whose text is only what would be accepted ("an integer from 1 to 8"): the
// caller knows which option it is about.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

/// A size in bytes, written as 8GiB, 512MB or plain bytes.
struct ByteSize {
  std::uint64_t bytes = 0;
};

/// Both ends are accepted.
struct IntRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

struct RealRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

std::int64_t parse_integer(std::string_view text, IntRange range);
/// Finite numbers only.
double parse_real(std::string_view text, RealRange range);
/// true, yes, on, 1 or false, no, off, 0.
bool parse_boolean(std::string_view text);
/// Units: B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024), in any case;
/// a fraction (1.5GiB) is rounded down. A bare K, M or G is refused, because programs disagree on
/// it.
ByteSize parse_byte_size(std::string_view text);
/// 2048 as "2KiB", 1000 as "1000": the largest power of 1024 that divides it, for help texts.
std::string byte_size_text(ByteSize size);

/// What --isa takes, and how help says it.
std::vector<std::string> isa_choices();
inline constexpr const char* kIsaHelp = "auto, no_amx, portable; x86: amx, avx512, avx2; ARM: neon";

/// The candidate that a person who typed `word` most likely meant, or nothing: it begins with the
/// word, or differs from it in few letters.
std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& candidates);

}  // namespace headrace
