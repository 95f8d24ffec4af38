// Symmetric quantisation, as every backend does it. Int8 weights have one scale for each row and
// reduction slice; int4 weights, and the inputs of a product with either, which are int8, one for
// each row and group of kQuantizationGroup columns, counted from the beginning of each slice; so
// nothing depends on how a matrix is cut over ranks. In the KV cache each key and each value has
// one. Forced inline for the reason that numeric.h gives.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace headrace {

/// Inputs have outliers in some columns, which cost all columns of their group accuracy.
inline constexpr int kQuantizationGroup = 64;

/// x is stored as round(x * inverse), ties to even, and stands for that times scale.
struct IntegerScale {
  float inverse = 0.0F;
  float scale = 0.0F;
};

/// For values whose largest magnitude is `largest`. Values too small for a normal inverse count as
/// zeros; where one is infinite or not a number (`finite` is false), nor is what comes of them.
[[gnu::always_inline]] inline IntegerScale integer_scale(float largest, bool finite,
                                                         float largest_integer) {
  constexpr float kSmallest = 0x1p-100F;
  if (!finite) return {0.0F, std::numeric_limits<float>::quiet_NaN()};
  if (largest < kSmallest) return {};
  return {largest_integer / largest, largest / largest_integer};
}
[[gnu::always_inline]] inline IntegerScale int8_scale(float largest, bool finite) {
  return integer_scale(largest, finite, 127.0F);
}

/// The same for a key or value in the cache: its scale is stored as a bfloat16, rounded up so that
/// the largest magnitude stays within 127.
[[gnu::always_inline]] inline IntegerScale int8_kv_scale(float largest, bool finite) {
  const IntegerScale exact = int8_scale(largest, finite);
  if (!(exact.scale > 0.0F)) return exact;
  const std::uint32_t bits = (std::bit_cast<std::uint32_t>(exact.scale) + 0xFFFFU) & 0xFFFF0000U;
  const auto stored = std::bit_cast<float>(bits);
  return {1.0F / stored, stored};
}

/// The scale of a slice of int8 weights.
IntegerScale int8_scale(std::span<const float> values);

/// The scale of a group of int4 weights: of several, and their negatives, the one with the smallest
/// squared error. It may leave the largest weights outside of [-8, 7], where int4_of() ends.
IntegerScale int4_scale(std::span<const float> values);

/// The integer of value * inverse, 0 where that is no number.
[[gnu::always_inline]] inline std::int32_t int4_of(float scaled) {
  if (!(scaled > -1000.0F && scaled < 1000.0F)) return 0;
  return std::clamp(static_cast<std::int32_t>(std::nearbyint(scaled)), -8, 7);
}

}  // namespace headrace
