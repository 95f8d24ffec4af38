// The orders in which the reference backend sums, as small loops.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "kernels/quantize.h"
#include "kernels/reduction_tree.h"
#include "kernels/tensor.h"

namespace headrace {

/// 16 interleaved chains that are added pairwise at the end: (j, j + 8), (j, j + 4), (j, j + 2),
/// (j, j + 1). It is what one 16-lane register, two 8-lane ones or four 4-lane ones do naturally.
class InterleavedSum {
 public:
  void add(std::int64_t index, float value) { chain(index) += value; }
  void add_square(std::int64_t index, float value) {
    chain(index) = std::fma(value, value, chain(index));
  }

  float total() const {
    std::array<float, 16> sums = chains_;
    for (std::size_t half = 8; half >= 1; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
    }
    return sums[0];
  }

 private:
  float& chain(std::int64_t index) { return chains_[static_cast<std::size_t>(index % 16)]; }

  std::array<float, 16> chains_{};
};

/// What elements are, and in which order their products are added.
struct ChainType {
  DType dtype = DType::kFloat32;
  SumOrder order = SumOrder::kChain;
};

/// sum + a[0] * b[0] + ... + a[count - 1] * b[count - 1 steps]: for float32 one ascending chain of
/// fused multiply-adds. For bfloat16 the elements go in pairs, within a pair the odd one first; an
/// odd count is filled up with a zero. Or, as tiles add, of every 32 elements the even and the odd
/// ones are chains from zero, whose sum is added. `stride` is the distance between elements of b.
inline float chain(float sum, const float* a, const float* b, std::int64_t count, ChainType type,
                   std::int64_t stride = 1) {
  if (type.dtype == DType::kBFloat16 && type.order == SumOrder::kTiles) {
    constexpr std::int64_t kTile = 32;
    for (std::int64_t begin = 0; begin < count; begin += kTile) {
      float sums[2] = {};
      for (std::int64_t i = begin; i < std::min(count, begin + kTile); ++i) {
        sums[i % 2] = std::fma(a[i], b[i * stride], sums[i % 2]);
      }
      sum += sums[0] + sums[1];
    }
    return sum;
  }
  if (type.dtype == DType::kFloat32) {
    for (std::int64_t i = 0; i < count; ++i) sum = std::fma(a[i], b[i * stride], sum);
    return sum;
  }
  for (std::int64_t i = 0; i < count; i += 2) {
    const bool pair = i + 1 < count;
    sum = std::fma(pair ? a[i + 1] : 0.0F, pair ? b[(i + 1) * stride] : 0.0F, sum);
    sum = std::fma(a[i], b[i * stride], sum);
  }
  return sum;
}

/// The inner product of two rows of tree.k() elements: slices are chains from zero, added as the
/// tree says. One value for a whole tree; the values that are left for a part of one.
std::vector<float> inner_product(const float* a, const float* b, const ReductionTree& tree,
                                 ChainType type);

/// Quantising, value by value; an integer has no negative zero, and is 0 where the scale is none.
float largest_of(std::span<const float> values);  // magnitude; 0 for none
bool all_finite(std::span<const float> values);
float integer_of(float value, const IntegerScale& scale);

/// Turns a row of tree.k() inputs into int8 integers and gives their scales, one a group.
std::vector<float> quantize_inputs(float* row, const ReductionTree& tree);

/// A row of integers (held as float32, those of int4 weights less their zero points) and its
/// scales.
struct QuantizedRow {
  const float* values = nullptr;
  const float* scales = nullptr;
};

/// inner_product() of quantised rows; ops.h says what a slice is. quantization: of the weights.
std::vector<float> quantized_inner_product(const QuantizedRow& inputs, const QuantizedRow& weights,
                                           const ReductionTree& tree, Quantization quantization);

/// inner_product() of inputs that stay as they are and a quantised row.
struct WeightOnly {
  Quantization quantization = Quantization::kInt8;  // of the weights
  ChainType inputs;
};
std::vector<float> weight_only_inner_product(const float* inputs, const QuantizedRow& weights,
                                             const ReductionTree& tree, const WeightOnly& types);

/// Pushes a value, then `merges` times adds the last two (earlier + later).
void push_and_merge(std::vector<float>& stack, float value, std::int32_t merges);

}  // namespace headrace
