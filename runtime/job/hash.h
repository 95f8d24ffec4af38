// Hashes that decide sampling streams, ids of answers and what a resume accepts. They are XXH3 over
// bytes, whose results are fixed for ever since xxHash 0.8.0.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace headrace {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

std::uint64_t hash64(std::string_view bytes, std::uint64_t seed = 0);
Hash128 hash128(std::string_view bytes);

/// 32 lower-case hexadecimal digits, high part first.
std::string hex(Hash128 hash);

/// The hash of a sequence of 64-bit hashes, known after each of them: value = hash128(value, next).
class ChainHash {
 public:
  void add(std::uint64_t next);
  Hash128 value() const { return value_; }

 private:
  Hash128 value_;
};

}  // namespace headrace
