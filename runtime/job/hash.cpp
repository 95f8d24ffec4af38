#include "runtime/job/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>

namespace headrace {
namespace {

void store_little_endian(std::uint64_t value, char* out) {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(value >> (8 * i));
}

}  // namespace

std::uint64_t hash64(std::string_view bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 hash128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::string hex(Hash128 hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

void ChainHash::add(std::uint64_t next) {
  std::array<char, 24> bytes;
  store_little_endian(value_.high, bytes.data());
  store_little_endian(value_.low, bytes.data() + 8);
  store_little_endian(next, bytes.data() + 16);
  value_ = hash128({bytes.data(), bytes.size()});
}

}  // namespace headrace
