// Symmetric int8 quantisation, as every backend does it. Weights have one scale for each row and
// reduction slice, inputs of a product one for each row and group of kInt8Group columns, counted
// from the beginning of each slice; so nothing depends on how a matrix is cut over ranks. Forced
// inline for the reason that numeric.h gives.
#pragma once

#include <limits>

namespace headrace {

/// Inputs have outliers in some columns, which cost all columns of their group accuracy.
inline constexpr int kInt8Group = 64;

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
