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

float integer_of(float value, const IntegerScale& scale) {
  const float scaled = value * scale.inverse;
  return std::isfinite(scaled) ? std::nearbyint(scaled) + 0.0F : 0.0F;
}

namespace {

// Turns values into integers of a scale, and gives that.
float quantize(std::span<float> values, Quantization quantization) {
  if (quantization == Quantization::kInt4) {
    const IntegerScale scale = int4_scale(values);
    for (float& x : values) x = static_cast<float>(int4_of(x * scale.inverse));
    return scale.scale;
  }
  const IntegerScale scale = int8_scale(largest_of(values), all_finite(values));
  for (float& x : values) x = integer_of(x, scale);
  return scale.scale;
}

// The groups of a slice, one after the other: apply(begin, end).
template <class Apply>
void for_each_group(std::int32_t begin, std::int32_t end, const Apply& apply) {
  for (std::int32_t i = begin; i < end; i += kQuantizationGroup) {
    apply(i, std::min(i + kQuantizationGroup, end));
  }
}

// Scales of every group.
std::vector<float> quantize_groups(float* row, const ReductionTree& tree,
                                   Quantization quantization) {
  std::vector<float> scales;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    for_each_group(tree.bounds[s], tree.bounds[s + 1], [&](std::int32_t begin, std::int32_t end) {
      scales.push_back(quantize({row + begin, row + end}, quantization));
    });
  }
  return scales;
}

}  // namespace

std::vector<float> quantize_weights(float* row, const ReductionTree& tree,
                                    Quantization quantization) {
  if (quantization == Quantization::kInt4) return quantize_groups(row, tree, quantization);
  std::vector<float> scales;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    scales.push_back(quantize({row + tree.bounds[s], row + tree.bounds[s + 1]}, quantization));
  }
  return scales;
}

std::vector<float> quantize_inputs(float* row, const ReductionTree& tree) {
  return quantize_groups(row, tree, Quantization::kInt8);
}

std::vector<float> quantized_inner_product(const QuantizedRow& inputs, const QuantizedRow& weights,
                                           const ReductionTree& tree, Quantization quantization) {
  std::vector<float> stack;
  const float* input_scale = inputs.scales;
  const float* weight_scale = weights.scales;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    float value = 0.0F;
    for_each_group(tree.bounds[s], tree.bounds[s + 1], [&](std::int32_t begin, std::int32_t end) {
      std::int32_t integers = 0;
      for (std::int32_t i = begin; i < end; ++i) {
        integers += static_cast<std::int32_t>(inputs.values[i]) *
                    static_cast<std::int32_t>(weights.values[i]);
      }
      const auto sum = static_cast<float>(integers);
      value = quantization == Quantization::kInt4
                  ? std::fma(sum * *input_scale++, *weight_scale++, value)
                  : std::fma(sum, *input_scale++, value);
    });
    if (quantization == Quantization::kInt8) value *= *weight_scale++;
    push_and_merge(stack, value, tree.merges[s]);
  }
  return stack;
}

}  // namespace headrace
