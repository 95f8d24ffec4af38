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

void quantize_row(float* row, const ReductionTree& tree, float* scales) {
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    float* const begin = row + tree.bounds[s];
    float* const end = row + tree.bounds[s + 1];
    const bool finite = std::all_of(begin, end, [](float x) { return std::isfinite(x); });
    float largest = 0.0F;
    for (const float* x = begin; x < end; ++x) largest = std::max(largest, std::fabs(*x));
    const Int8Scale scale = int8_scale(largest, finite);
    for (float* x = begin; x < end; ++x) {
      // An integer has no negative zero.
      *x = finite ? std::nearbyint(*x * scale.inverse) + 0.0F : 0.0F;
    }
    scales[s] = scale.scale;
  }
}

std::vector<float> quantized_inner_product(const QuantizedRow& a, const QuantizedRow& b,
                                           const ReductionTree& tree) {
  std::vector<float> stack;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    std::int32_t sum = 0;
    for (std::int32_t i = tree.bounds[s]; i < tree.bounds[s + 1]; ++i) {
      sum += static_cast<std::int32_t>(a.values[i]) * static_cast<std::int32_t>(b.values[i]);
    }
    push_and_merge(stack, static_cast<float>(sum) * a.scales[s] * b.scales[s], tree.merges[s]);
  }
  return stack;
}

}  // namespace headrace
