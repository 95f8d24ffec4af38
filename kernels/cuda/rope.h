// RoPE on queries and keys, fused with the write of keys and values into the cache. It has the bits
// of the reference backend.
//
// Performance: bound by memory: 4 bytes read and bytes(T) written an element of qkv, and the row's
// cosines and sines, which stay in the L1 cache. To meet: 75 % of the memory's rate (A100 80GB 2.0
// TB/s, H100 3.35, H200 4.8) from 2,000 rows on; a decode step's takes a few microseconds.
#pragma once

#include <cstdint>

#include "kernels/cuda/paged_cache.h"
#include "kernels/cuda/stream.h"
#include "kernels/ops.h"

namespace headrace {

struct RopeLaunch {
  void* q_out = nullptr;                       // [rows, heads * head_dim]
  const float* qkv = nullptr;                  // [rows, (heads + 2 * kv_heads) * head_dim]
  const float* cos_sin = nullptr;              // [rows, rotary_dim]
  const std::int32_t* row_sequence = nullptr;  // [rows] from first_row on, into cache.sequences
  std::int64_t rows = 0;
  std::int64_t first_row = 0;  // the launch's rows begin here
  AttentionShape shape;
  PagedCache cache;
  DType dtype = DType::kFloat32;
};
void launch_rope_and_store_kv(const RopeLaunch& args, Stream stream);

}  // namespace headrace
