#include "kernels/reference/reference_math.h"

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

}  // namespace headrace
