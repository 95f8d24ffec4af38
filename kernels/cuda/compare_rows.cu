#include "kernels/cuda/compare_rows.h"

#include <bit>
#include <cstdint>

#include "kernels/cuda/elementwise_kernel.h"

namespace headrace {
namespace {

struct CompareRowsOp {
  const float* rows;
  const float* expected;
  float* differs;
  std::int64_t num_rows;
  std::int64_t cols;

  template <int kCount>
  HR_DEVICE void apply(std::int64_t /*row*/, std::int64_t column) const {
    const Pack<float, kCount> same = load_floats<kCount>(expected + column);
    Pack<float, kCount> found = load_floats<kCount>(differs + column);
#pragma unroll 1  // few registers, many threads: that hides memory's latency as well
    for (std::int64_t row = 0; row < num_rows; ++row) {
      const Pack<float, kCount> values = load_floats<kCount>(rows + row * cols + column);
      for (int e = 0; e < kCount; ++e) {
        if (std::bit_cast<std::uint32_t>(values.items[e]) !=
            std::bit_cast<std::uint32_t>(same.items[e])) {
          found.items[e] = 1.0F;
        }
      }
    }
    store_floats<kCount>(differs + column, found);
  }
};

}  // namespace

void launch_compare_rows(const CompareRowsLaunch& args, Stream stream) {
  launch_elementwise(
      CompareRowsOp{args.rows, args.expected, args.differs, args.num_rows, args.cols},
      {1, args.cols, {args.rows, args.expected, args.differs}}, stream);
}

}  // namespace headrace
