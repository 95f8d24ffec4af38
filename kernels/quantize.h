// Symmetric int8 quantisation, as every backend does it for weights and for the inputs of a
// product: one scale for each row and reduction slice, so that nothing depends on how a matrix is
// cut over ranks. Forced inline for the reason that numeric.h gives.
#pragma once

#include <limits>

namespace headrace {

/// Longest slice whose sum of products of int8 values, the offset of 128 that some instructions
/// want on one side included, stays within 32 bits: 255 * 127 * 65536 < 2^31.
inline constexpr int kMaxInt8Slice = 65536;

/// x is stored as round(x * inverse), ties to even, and stands for that times scale.
struct Int8Scale {
  float inverse = 0.0F;
  float scale = 0.0F;
};

/// For values whose largest magnitude is `largest`. Values too small for a normal inverse count as
/// zeros; where one is infinite or not a number (`finite` is false), nor is what comes of them.
[[gnu::always_inline]] inline Int8Scale int8_scale(float largest, bool finite) {
  constexpr float kSmallest = 0x1p-100F;
  if (!finite) return {0.0F, std::numeric_limits<float>::quiet_NaN()};
  if (largest < kSmallest) return {};
  return {127.0F / largest, largest / 127.0F};
}

}  // namespace headrace
