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
                                 ChainType type) {
  std::vector<float> stack;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    const std::int32_t begin = tree.bounds[s];
    push_and_merge(stack, chain(0.0F, a + begin, b + begin, tree.bounds[s + 1] - begin, type),
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

// The groups of a slice, of `width` columns each, one after the other: apply(begin, end).
template <class Apply>
void for_each_group(IntegerUnit slice, std::int32_t width, const Apply& apply) {
  for (std::int32_t i = slice.begin; i < slice.end; i += width) {
    apply(i, std::min(i + width, slice.end));
  }
}

}  // namespace

std::vector<float> quantize_inputs(float* row, const ReductionTree& tree) {
  std::vector<float> scales;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    for_each_group({tree.bounds[s], tree.bounds[s + 1]}, kQuantizationGroup,
                   [&](std::int32_t begin, std::int32_t end) {
                     const std::span<float> group(row + begin, row + end);
                     const IntegerScale scale = int8_scale(largest_of(group), all_finite(group));
                     for (float& x : group) x = integer_of(x, scale);
                     scales.push_back(scale.scale);
                   });
  }
  return scales;
}

std::vector<float> quantized_inner_product(const QuantizedRow& inputs, const QuantizedRow& weights,
                                           const ReductionTree& tree, Quantization quantization) {
  const bool int4 = quantization == Quantization::kInt4;
  std::vector<float> stack;
  const float* input_scale = inputs.scales;
  const float* weight_scale = weights.scales;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    const std::int32_t first = tree.bounds[s];
    float value = 0.0F;
    for_each_group({first, tree.bounds[s + 1]}, int4 ? kInt4Group : kQuantizationGroup,
                   [&](std::int32_t begin, std::int32_t end) {
                     double exact = 0.0;  // integers, of int4 sixteenths: at most 2^20 of them
                     for (std::int32_t i = begin; i < end; ++i) {
                       exact += static_cast<double>(inputs.values[i]) *
                                static_cast<double>(weights.values[i]);
                     }
                     const auto sum = static_cast<float>(exact);
                     const float scale = input_scale[(begin - first) / kQuantizationGroup];
                     value = int4 ? std::fma(sum * scale, *weight_scale++, value)
                                  : std::fma(sum, scale, value);
                   });
    input_scale += (tree.bounds[s + 1] - first + kQuantizationGroup - 1) / kQuantizationGroup;
    if (!int4) value *= *weight_scale++;
    push_and_merge(stack, value, tree.merges[s]);
  }
  return stack;
}

std::vector<float> weight_only_inner_product(const float* inputs, const QuantizedRow& weights,
                                             const ReductionTree& tree, const WeightOnly& types) {
  std::vector<float> stack;
  const float* scale = weights.scales;
  const auto chain_over = [&](std::int32_t begin, std::int32_t end) {
    return chain(0.0F, inputs + begin, weights.values + begin, end - begin, types.inputs);
  };
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    const IntegerUnit slice{tree.bounds[s], tree.bounds[s + 1]};
    float value = 0.0F;
    if (types.quantization == Quantization::kInt4) {
      for_each_group(slice, kInt4Group, [&](std::int32_t begin, std::int32_t end) {
        value = std::fma(chain_over(begin, end), *scale++, value);
      });
    } else {
      value = chain_over(slice.begin, slice.end) * *scale++;
    }
    push_and_merge(stack, value, tree.merges[s]);
  }
  return stack;
}

}  // namespace headrace
