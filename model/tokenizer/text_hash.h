// A fast 64-bit hash of bytes, the same on every machine: for tables in memory and fingerprints.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace headrace {

inline std::uint64_t mix_product(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) {
  // Odd constants from the digits of pi: no structure that inputs could share.
  constexpr std::uint64_t kFirst = 0x243F6A8885A308D3;
  constexpr std::uint64_t kSecond = 0x13198A2E03707345;
  std::uint64_t hash = seed ^ kFirst ^ text.size();
  const char* p = text.data();
  std::size_t left = text.size();
  for (; left >= 8; p += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    hash = mix_product(hash ^ word, kSecond);
  }
  std::uint64_t tail = 0;
  if (left >= 4) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + left - 4, 4);
    tail = static_cast<std::uint64_t>(high) << 32 | low;
  } else if (left > 0) {
    const auto at = [p](std::size_t i) {
      return static_cast<std::uint64_t>(static_cast<unsigned char>(p[i]));
    };
    tail = at(0) << 16 | at(left / 2) << 8 | at(left - 1);
  }
  return mix_product(mix_product(hash ^ tail, kSecond) ^ kFirst, kSecond);
}

}  // namespace headrace
