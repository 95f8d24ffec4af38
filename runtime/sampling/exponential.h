// e^x for weights of a soft-max, in plain float32 operations: the same bits on every machine, which a C
// library does not promise, and a loop over it becomes vector code.
#pragma once

#include <bit>
#include <cstdint>

namespace headrace {

/// Below this the weight is 0: e^-87 is the smallest that stays a normal number by a margin.
inline constexpr float kMinExponent = -87.0F;

/// e^x for x <= 0, within 2 ulp; 0 for x < kMinExponent, exactly 1 for 0.
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a polynomial, 2^n by its bits (Cody and Waite, 1980).
inline float exp_nonpositive(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;        // 355 / 512: n times it is exact
  constexpr float kLn2Low = -2.12194440e-4F;      // ln 2 - kLn2High
  constexpr float kRound = 12582912.0F;           // 1.5 * 2^23: adding it rounds to an integer
  const float clamped = x < kMinExponent ? kMinExponent : x;
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  // Minimax coefficients of (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2] (Cephes, expf).
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e_r = (p * (r * r) + r) + 1.0F;
  // The low bits of `shifted` are n in two's complement.
  const std::uint32_t exponent_bits = std::bit_cast<std::uint32_t>(shifted) << 23;
  const float scaled = std::bit_cast<float>(std::bit_cast<std::uint32_t>(e_r) + exponent_bits);
  return x < kMinExponent ? 0.0F : scaled;
}

}  // namespace headrace
