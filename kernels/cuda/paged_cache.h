// The paged KV cache on the device, and the sequences of a step as kernels see them.
//
// A block holds, for each KV head, keys [block_tokens, head_dim] and then values [block_tokens,
// head_dim] in the compute type: a token's key of one head is one run of bytes, as asynchronous
// copies want it, and a chunk of 64 tokens one run a block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

namespace headrace {

/// SequenceRows on the device: its block ids begin at tables[table].
struct DeviceSequence {
  std::int32_t first_row = 0;
  std::int32_t num_rows = 0;
  std::int32_t first_position = 0;
  std::int32_t table = 0;
};

/// One layer's cache with the block tables of a step.
struct PagedCache {
  std::byte* data = nullptr;
  std::int64_t block_bytes = 0;
  std::int32_t block_shift = 0;  // block_tokens = 1 << block_shift
  std::int32_t head_dim = 0;
  const DeviceSequence* sequences = nullptr;
  const std::int32_t* tables = nullptr;
};

inline std::size_t paged_block_bytes(const AttentionShape& shape, int block_tokens, DType dtype) {
  return static_cast<std::size_t>(shape.num_kv_heads) * 2 * static_cast<std::size_t>(block_tokens) *
         static_cast<std::size_t>(shape.head_dim) * dtype_bytes(dtype);
}

}  // namespace headrace
