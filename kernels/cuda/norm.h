// Norms over rows or parts of rows.
//
// The sum of a norm: thread t of a team takes the elements of packs t, t + team, ... in ascending
// order, by fused multiply-adds; then pairs of lanes at distance 16 to 1, then warps ascending.
// Teams are warps up to kWarpNormWidth columns and blocks beyond, so the order depends on the width
// alone. The residual is added where the product before is finished (matmul_add), so there is
// nothing for a norm to fuse with.
//
// Performance: bound by memory: 4 bytes read (again from the L1 or L2 cache in the second pass;
// rows in flight, 4 blocks of 16 KB on each multiprocessor, fit the L1) and bytes(T) written an
// element. To meet: 80 % of the memory's rate (A100 80GB 2.0 TB/s, H100 3.35, H200 4.8) from 2,000
// rows of 4,096 on; a decode step's norm is a few microseconds whatever its rows.
#pragma once

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/ops.h"

namespace headrace {

/// Widest row that a single warp norms: 16 elements a lane.
inline constexpr std::int64_t kWarpNormWidth = 512;

struct NormLaunch {
  const float* x = nullptr;  // [rows, row_cols]
  void* out = nullptr;       // the same places; x itself only as float32
  std::int64_t rows = 0;
  std::int64_t row_cols = 0;
  RowParts parts;  // {0, row_cols, 1}: whole rows
  Norm norm;
  DType out_dtype = DType::kFloat32;
};
void launch_norm(const NormLaunch& args, Stream stream);

}  // namespace headrace
