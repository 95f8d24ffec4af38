// Where kernels find keys and values in the paged cache (paged_cache.h).
#pragma once

#include "kernels/cuda/paged_cache.h"
#include "kernels/cuda/simt.h"

namespace headrace {

/// The key of one token and KV head, [head_dim]. Its value lies value_offset() elements behind.
template <class T>
HR_DEVICE T* key_of(const PagedCache& cache, const DeviceSequence& sequence, int position,
                    int kv_head) {
  const std::int64_t block = cache.tables[sequence.table + (position >> cache.block_shift)];
  const std::int64_t slot = position & ((1 << cache.block_shift) - 1);
  const std::int64_t row = (std::int64_t{kv_head} * 2 << cache.block_shift) + slot;
  return reinterpret_cast<T*>(cache.data + block * cache.block_bytes) + row * cache.head_dim;
}

HR_DEVICE std::int64_t value_offset(const PagedCache& cache) {
  return std::int64_t{cache.head_dim} << cache.block_shift;
}

}  // namespace headrace
