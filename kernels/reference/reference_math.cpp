#include "kernels/reference/reference_math.h"

#include <algorithm>

#include "kernels/quantize.h"

namespace headrace {

void push_and_merge(std::vector<float>& stack, float value, std::int32_t merges) {
  stack.push_back(value);
  for (std::int32_t merge = 0; merge < merges; ++merge) {
    const float later = stack.back();
    stack.pop_back();
    stack.back() += later;
  }
}

std::vector<float> inner_product(const float* a, const float* b, const ReductionTree& tree,
                                 DType dtype) {
  std::vector<float> stack;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    const std::int32_t begin = tree.bounds[s];
    push_and_merge(stack, chain(0.0F, a + begin, b + begin, tree.bounds[s + 1] - begin, dtype),
                   tree.merges[s]);
  }
  return stack;
}

float largest_of(std::span<const float> values) {
  float largest = 0.0F;
  for (const float x : values) largest = std::max(largest, std::fabs(x));
  return largest;
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

float integer_of(float value, const Int8Scale& scale) {
  const float scaled = value * scale.inverse;
  return std::isfinite(scaled) ? std::nearbyint(scaled) + 0.0F : 0.0F;
}

namespace {

// Turns values into integers and gives their scale.
float quantize(std::span<float> values) {
  const Int8Scale scale = int8_scale(largest_of(values), all_finite(values));
  for (float& x : values) x = integer_of(x, scale);
  return scale.scale;
}

}  // namespace

void quantize_weights(float* row, const ReductionTree& tree, float* scales) {
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    scales[s] = quantize({row + tree.bounds[s], row + tree.bounds[s + 1]});
  }
}

std::vector<float> quantize_inputs(float* row, const ReductionTree& tree) {
  std::vector<float> scales;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    for (std::int32_t i = tree.bounds[s]; i < tree.bounds[s + 1]; i += kInt8Group) {
      scales.push_back(quantize({row + i, row + std::min(i + kInt8Group, tree.bounds[s + 1])}));
    }
  }
  return scales;
}

std::vector<float> quantized_inner_product(const QuantizedRow& inputs, const QuantizedRow& weights,
                                           const ReductionTree& tree) {
  std::vector<float> stack;
  const float* input_scale = inputs.scales;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    float value = 0.0F;
    for (std::int32_t begin = tree.bounds[s]; begin < tree.bounds[s + 1]; begin += kInt8Group) {
      std::int32_t sum = 0;
      const std::int32_t end = std::min(begin + kInt8Group, tree.bounds[s + 1]);
      for (std::int32_t i = begin; i < end; ++i) {
        sum += static_cast<std::int32_t>(inputs.values[i]) *
               static_cast<std::int32_t>(weights.values[i]);
      }
      value = std::fma(static_cast<float>(sum), *input_scale++, value);
    }
    push_and_merge(stack, value * weights.scales[s], tree.merges[s]);
  }
  return stack;
}

}  // namespace headrace
