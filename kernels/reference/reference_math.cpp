#include "kernels/reference/reference_math.h"

#include <vector>

namespace headrace {

float inner_product(const float* a, const float* b, const ReductionTree& tree, DType dtype) {
  std::vector<float> stack;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    const std::int32_t begin = tree.bounds[s];
    stack.push_back(chain(0.0F, a + begin, b + begin, tree.bounds[s + 1] - begin, dtype));
    for (std::int32_t merge = 0; merge < tree.merges[s]; ++merge) {
      const float later = stack.back();
      stack.pop_back();
      stack.back() += later;
    }
  }
  return stack.front();
}

}  // namespace headrace
