// The one kernel behind all elementwise operators: a thread takes four neighbouring elements of a
// row, or one where rows are not made of aligned fours.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/element.h"
#include "kernels/cuda/simt.h"

namespace headrace {

inline constexpr int kElementwiseThreads = 256;
inline constexpr int kElementwisePack = 4;

template <class Op>
struct ElementwiseArgs {
  Op op;
  std::int64_t cols = 0;
  std::int64_t blocks_per_row = 0;
};

/// op.template apply<kCount>(row, first column) for every pack of elements.
template <class Op, int kCount>
HR_KERNEL(kElementwiseThreads, 4)
elementwise_kernel(ElementwiseArgs<Op> args) {
  const std::int64_t row = block_x() / args.blocks_per_row;
  const std::int64_t block = block_x() % args.blocks_per_row;
  const std::int64_t column = (block * block_threads() + thread_index()) * kCount;
  if (column < args.cols) args.op.template apply<kCount>(row, column);
}

struct ElementwiseShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::initializer_list<const void*> pointers;  // of all operands
};

inline bool all_aligned(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return false;
  }
  return true;
}

/// Whole warps for so many pieces of work, one a thread, up to `most` threads.
inline int threads_for(std::int64_t pieces, int most) {
  const std::int64_t warps = (pieces + kWarpThreads - 1) / kWarpThreads;
  return static_cast<int>(warps * kWarpThreads < most ? warps * kWarpThreads : most);
}

template <class Op>
void launch_elementwise(const Op& op, const ElementwiseShape& shape, Stream stream) {
  if (shape.rows == 0 || shape.cols == 0) return;
  const bool packs = shape.cols % kElementwisePack == 0 && all_aligned(shape.pointers);
  const std::int64_t pieces = packs ? shape.cols / kElementwisePack : shape.cols;
  const int threads = threads_for(pieces, kElementwiseThreads);
  const std::int64_t blocks_per_row = (pieces + threads - 1) / threads;
  const ElementwiseArgs<Op> args{.op = op, .cols = shape.cols, .blocks_per_row = blocks_per_row};
  const LaunchShape launch_shape{.grid_x = shape.rows * blocks_per_row, .threads = threads};
  if (packs) {
    launch(elementwise_kernel<Op, kElementwisePack>, launch_shape, stream, args);
  } else {
    launch(elementwise_kernel<Op, 1>, launch_shape, stream, args);
  }
}

}  // namespace headrace
