// e^x for weights of a soft-max, in plain float32 operations: the same bits on every machine and
// device, which a C library does not promise.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/host_device.h"

namespace headrace {

/// Below this the weight is 0: e^-87 is a normal number still.
inline constexpr float kMinExponent = -87.0F;

namespace detail {

// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a polynomial, 2^n by its bits (Cody and Waite, 1980).
// Float is float or a vector of them, Bits its bits: one text, so that both give the same.
template <typename Float, typename Bits>
HR_HOST_DEVICE Float exp_nonpositive(const Float& x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;    // 355 / 512: n times it is exact
  constexpr float kLn2Low = -2.12194440e-4F;  // ln 2 - kLn2High
  constexpr float kRound = 12582912.0F;       // 1.5 * 2^23: adding it rounds to an integer
  const Float lowest = Float{} + kMinExponent;
  const Float clamped = x < lowest ? lowest : x;
  const Float shifted = clamped * kLog2E + kRound;
  const Float n = shifted - kRound;
  const Float r = (clamped - n * kLn2High) - n * kLn2Low;
  // Minimax coefficients of (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2] (Cephes, expf).
  Float p = Float{} + 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const Float e_r = (p * (r * r) + r) + 1.0F;
  // The low bits of `shifted` are n in two's complement.
  const Bits scaled = std::bit_cast<Bits>(e_r) + (std::bit_cast<Bits>(shifted) << 23);
  return x < lowest ? Float{} : std::bit_cast<Float>(scaled);
}

}  // namespace detail

/// e^x for x <= 0, within 2 ulp; 0 for x < kMinExponent, exactly 1 for 0.
HR_HOST_DEVICE inline float exp_nonpositive(float x) {
  return detail::exp_nonpositive<float, std::uint32_t>(x);
}

}  // namespace headrace
