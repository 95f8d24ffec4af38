// Quantisation as every backend does it. Int8 weights are symmetric, with one scale for each row
// and reduction slice. Int4 weights have a scale and a zero point for each row and group of
// kInt4Group columns. The inputs of a product with either are int8 and symmetric, with one scale
// for each row and group of kQuantizationGroup columns. Groups are counted from the beginning of
// each slice; so nothing depends on how a matrix is cut over ranks. In the KV cache each key and
// each value has a scale. Forced inline for the reason that numeric.h gives.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/ops.h"

namespace headrace {

/// Inputs have outliers in some columns, which cost all columns of their group accuracy.
inline constexpr int kQuantizationGroup = 64;

/// Columns of int4 weights that share a scale; an even part of a group of inputs.
inline constexpr int kInt4Group = 32;

/// x is stored as round(x * inverse), ties to even, and stands for that times scale.
struct IntegerScale {
  float inverse = 0.0F;
  float scale = 0.0F;
};

/// For values whose largest magnitude is `largest`. Values too small for a normal inverse count as
/// zeros; where one is infinite or not a number (`finite` is false), nor is what comes of them.
[[gnu::always_inline]] inline IntegerScale int8_scale(float largest, bool finite) {
  constexpr float kSmallest = 0x1p-100F;
  if (!finite) return {0.0F, std::numeric_limits<float>::quiet_NaN()};
  if (largest < kSmallest) return {};
  return {127.0F / largest, largest / 127.0F};
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

/// 1.5 * 2^23: adding it to a value below 2^22 rounds to an integer, ties to even, which the low
/// bits then hold.
inline constexpr float kRoundingOffset = 12582912.0F;

/// The integer that comes nearest to value, which is one of those that the scale was made for. Of
/// values whose scale is no number the integer does not matter.
[[gnu::always_inline]] inline std::int8_t int8_of(float value, const IntegerScale& scale) {
  return static_cast<std::int8_t>(
      std::bit_cast<std::uint32_t>(value * scale.inverse + kRoundingOffset));
}

/// An int4 weight q, from 0 to 15, stands for (q - zero / 16) * scale: a zero point in sixteenths
/// is fine enough to give the blocks of GGUF's Q4_1 back. The scale is a float16's value.
struct Int4Scale {
  float inverse = 0.0F;
  float scale = 0.0F;
  std::uint8_t zero = 0;
};

/// The scale and zero point of a group of int4 weights: of several, those with the smallest squared
/// error. importance: what the error of each value counts, or empty for all the same.
Int4Scale int4_scale(std::span<const float> values, std::span<const float> importance = {});

/// The integer that comes nearest to value, 0 where there is none.
std::int8_t int4_of(float value, const Int4Scale& scale);

/// (q - zero / 16), exact.
[[gnu::always_inline]] inline float int4_centred(std::int8_t integer, std::uint8_t zero) {
  return static_cast<float>(integer * 16 - zero) * 0.0625F;
}

/// "none", "int8" or "int4", as options spell them.
constexpr std::string_view quantization_name(Quantization quantization) {
  switch (quantization) {
    case Quantization::kInt8:
      return "int8";
    case Quantization::kInt4:
      return "int4";
    case Quantization::kNone:
      break;
  }
  return "none";
}

/// Columns [begin, end) of a row that share a scale: a slice in int8, a group of one in int4.
struct IntegerUnit {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// The units of a row whose slices are cut at `bounds`. quantization is not kNone.
std::vector<IntegerUnit> integer_units(std::span<const std::int32_t> bounds,
                                       Quantization quantization);

/// Room for one row of weights.
struct IntegerRow {
  std::vector<std::int8_t> integers;
  std::vector<float> scales;
  std::vector<std::uint8_t> zeros;

  IntegerRow(std::int64_t k, std::size_t units);
  IntegerRows view() const;
};

/// Quantises one row of weights, each value to the nearest integer.
void quantize_row(const float* values, std::span<const IntegerUnit> units,
                  Quantization quantization, IntegerRow& out);

}  // namespace headrace
