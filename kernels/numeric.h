// Scalar arithmetic that every backend agrees on bit by bit: conversions between 16-bit and 32-bit
// floats, exp and log. The vector twins (kernels/cpu/simd_math.h) do the same operations in the
// same order. Everything is forced inline, because files with different instruction sets include it
// and no out-of-line copy built for one of them may be linked into the others.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"

namespace headrace {

HR_HOST_DEVICE [[gnu::always_inline]] inline float bf16_to_float(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

/// Round to nearest, ties to even. A denormal becomes a zero of its sign, as everywhere in compute
/// (flush_denormals.h); a NaN stays one.
HR_HOST_DEVICE [[gnu::always_inline]] inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  if (magnitude < 0x00800000U) return static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// The nearest bfloat16, as a float32.
HR_HOST_DEVICE [[gnu::always_inline]] inline float round_to_bf16(float value) {
  return bf16_to_float(float_to_bf16(value));
}

/// Exact.
HR_HOST_DEVICE [[gnu::always_inline]] inline float f16_to_float(std::uint16_t value) {
  const std::uint32_t sign = (value & 0x8000U) << 16;
  const std::uint32_t exponent = (value >> 10) & 0x1FU;
  const std::uint32_t mantissa = value & 0x3FFU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return sign == 0 ? magnitude : -magnitude;
}

/// Round to nearest, ties to even; beyond 65504 infinite, below 2^-14 with fewer bits. A NaN stays
/// one.
HR_HOST_DEVICE [[gnu::always_inline]] inline std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // 65520 and up
  if (magnitude < 0x38800000U) {
    // Adding 1/2 puts the unit of a float16's last place, 2^-24, at the float32's.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

// exp(x) = 2^n * exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2; exp(r) = 1 + r + r^2 * q(r).
struct ExpConstants {
  static constexpr float kLowest =
      -88.0F;  // n = -127: the factor 2^n is zero, and so is the result
  static constexpr float kHighest = 89.0F;  // n = 128: the factor 2^n is infinite
  static constexpr float kLog2E = 1.44269504F;
  static constexpr float kRound =
      12582912.0F;  // 1.5 * 2^23: adding it leaves round(x) in the low bits
  static constexpr float kLn2High = 0.693359375F;  // nine bits, so that n * kLn2High is exact
  static constexpr float kLn2Low = -2.12194440e-4F;
  // Chebyshev interpolation of q over [-ln(2)/2, ln(2)/2]; its relative error is below 2^-27.
  static constexpr float kQ0 = 5.000000000e-01F;
  static constexpr float kQ1 = 1.666657627e-01F;
  static constexpr float kQ2 = 4.166655615e-02F;
  static constexpr float kQ3 = 8.363178931e-03F;
  static constexpr float kQ4 = 1.392618404e-03F;
};

/// exp(x) = power * (1 + excess), power = 2^n.
struct ExpParts {
  float power;
  float excess;
};

/// For x from kLowest to kHighest.
HR_HOST_DEVICE [[gnu::always_inline]] inline ExpParts exp_parts_f32(float x) {
  using C = ExpConstants;
  const float shifted = std::fma(x, C::kLog2E, C::kRound);
  const float n = shifted - C::kRound;
  float r = std::fma(n, -C::kLn2High, x);
  r = std::fma(n, -C::kLn2Low, r);
  float q = std::fma(r, C::kQ4, C::kQ3);
  q = std::fma(q, r, C::kQ2);
  q = std::fma(q, r, C::kQ1);
  q = std::fma(q, r, C::kQ0);
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3F800000U;
  return {.power = std::bit_cast<float>(power), .excess = std::fma(q * r, r, r)};
}

/// exp with an error of about one unit in the last place. Zero below the smallest normal float32,
/// infinite above 88.37; exp(NaN) is NaN.
HR_HOST_DEVICE [[gnu::always_inline]] inline float exp_f32(float x) {
  using C = ExpConstants;
  x = C::kHighest < x ? C::kHighest : x;
  x = C::kLowest > x ? C::kLowest : x;
  const ExpParts parts = exp_parts_f32(x);
  return (parts.excess + 1.0F) * parts.power;
}

/// A row's scores as a soft-max knows them: the largest, and the sum of exp(score - max).
struct ScoreSum {
  float max;
  float total;
};

/// What a row's weighted values are multiplied by where attention ends (Ops::attention). sinks: of
/// all heads, or null.
HR_HOST_DEVICE [[gnu::always_inline]] inline float attention_factor(const ScoreSum& scores,
                                                                    const float* sinks, int head) {
  if (sinks == nullptr) return 1.0F / scores.total;
  const float sink = sinks[head];
  const float common = scores.max < sink ? sink : scores.max;
  const float kept = exp_f32(scores.max - common);
  return kept / std::fma(scores.total, kept, exp_f32(sink - common));
}

/// tanh(x) = e / (e + 2) with e = exp(2x) - 1, taken without cancellation. Good to a few units in
/// the last place, 1 from 10 on.
HR_HOST_DEVICE [[gnu::always_inline]] inline float tanh_f32(float x) {
  constexpr float kEnd = 10.0F;
  x = kEnd < x ? kEnd : x;
  x = -kEnd > x ? -kEnd : x;
  const ExpParts parts = exp_parts_f32(x + x);
  const float e = std::fma(parts.power, parts.excess, parts.power - 1.0F);
  return e / (e + 2.0F);
}

/// cap * tanh(x / cap): nearly x where it is small, never beyond the cap.
HR_HOST_DEVICE [[gnu::always_inline]] inline float soft_cap_f32(float x, float cap) {
  return tanh_f32(x / cap) * cap;
}

/// x / (1 + exp(-x)).
HR_HOST_DEVICE [[gnu::always_inline]] inline float silu_f32(float x) {
  return x / (1.0F + exp_f32(-x));
}

// The usual approximation of x * Phi(x): x / 2 * (1 + tanh(u)) = x / (1 + exp(-2u)) with
// u = sqrt(2 / pi) * (x + 0.044715 * x^3).
struct GeluTanhConstants {
  static constexpr float kLinear = 1.59576912F;     // 2 * sqrt(2 / pi)
  static constexpr float kCubic = 7.13548163e-02F;  // 0.044715 times that
};

HR_HOST_DEVICE [[gnu::always_inline]] inline float gelu_tanh_f32(float x) {
  using C = GeluTanhConstants;
  const float twice_u = x * std::fma(x * x, C::kCubic, C::kLinear);
  return x / (1.0F + exp_f32(-twice_u));
}

// x * Phi(x) = max(x, 0) - |x| * Q(|x|), where Q(a) = 1 - Phi(a) = exp(-a^2 / 2) * t * P(t) with
// t = 1 / (1 + kStretch * a). P is a Chebyshev interpolation for a from 0 to 8; its relative error
// is below 6e-8.
struct GeluErfConstants {
  static constexpr float kFarthest = 14.0F;  // exp(-a^2 / 2) is zero in float32
  static constexpr float kStretch = 0.3F;
  static constexpr float kP0 = 1.195999487e-01F;
  static constexpr float kP1 = 1.211775127e-01F;
  static constexpr float kP2 = 9.740110831e-02F;
  static constexpr float kP3 = 1.365112273e-01F;
  static constexpr float kP4 = -6.820277612e-02F;
  static constexpr float kP5 = 2.216959964e-01F;
  static constexpr float kP6 = -1.659107859e-01F;
  static constexpr float kP7 = 3.772779343e-02F;
};

HR_HOST_DEVICE [[gnu::always_inline]] inline float gelu_erf_f32(float x) {
  using C = GeluErfConstants;
  const float minus = -x;
  float a = x > minus ? x : minus;
  a = C::kFarthest < a ? C::kFarthest : a;
  const float t = 1.0F / std::fma(a, C::kStretch, 1.0F);
  float p = std::fma(t, C::kP7, C::kP6);
  p = std::fma(p, t, C::kP5);
  p = std::fma(p, t, C::kP4);
  p = std::fma(p, t, C::kP3);
  p = std::fma(p, t, C::kP2);
  p = std::fma(p, t, C::kP1);
  p = std::fma(p, t, C::kP0);
  const float tail = exp_f32(a * a * -0.5F) * (p * t);
  return (x > 0.0F ? x : 0.0F) - a * tail;
}

/// Natural logarithm of a positive normal number, good to about 1e-14. Own code, because the last
/// bit of the C library's differs between its versions and between CPUs. Plain operations only.
HR_HOST_DEVICE [[gnu::always_inline]] inline double log_f64(double x) {
  constexpr double kLn2 = 0.69314718055994530942;
  constexpr std::uint64_t kSqrtHalf = 0x3FE6A09E667F3BCDULL;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  // m in [sqrt(1/2), sqrt(2)): subtracting sqrt(1/2) makes the exponent field carry at its bounds.
  const std::int64_t exponent = static_cast<std::int64_t>(bits - kSqrtHalf) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
  const double s = (m - 1.0) / (m + 1.0);  // log(m) = 2 * atanh(s), |s| < 0.172
  const double z = s * s;
  double sum = 0.0;
  for (int i = 19; i >= 1; i -= 2) sum = sum * z + 1.0 / i;
  return static_cast<double>(exponent) * kLn2 + 2.0 * s * sum;
}

/// log(sum) + max, as RowStatistics::log_sum_exp holds it.
HR_HOST_DEVICE [[gnu::always_inline]] inline float log_sum_exp_of(float max, float sum) {
  return static_cast<float>(static_cast<double>(max) + log_f64(static_cast<double>(sum)));
}

}  // namespace headrace
