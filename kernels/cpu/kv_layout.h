// Layout of one block of the KV cache, in dwords. A dword holds one float32, or two bfloat16 that
// lie beside each other in the sum they enter: two dimensions of a key, two tokens of a value.
//
//   block = [kv_heads] of: keys   [block_tokens / 16][head_dim / group][16 tokens]
//                          values [block_tokens / group][value_stride]
//
// Both are read by the same register tile as a weight panel, without a horizontal sum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

namespace headrace {

struct KvLayout {
  std::int64_t key_steps = 0;      // dwords of one key: head_dim / group
  std::int64_t value_stride = 0;   // head_dim, rounded up to whole registers
  std::int64_t values_offset = 0;  // of a head's values behind its keys
  std::int64_t head_dwords = 0;    // keys and values of one head
};

KvLayout make_kv_layout(const AttentionShape& shape, int block_tokens, DType dtype);

std::size_t kv_layout_bytes(const AttentionShape& shape, int block_tokens, DType dtype);

}  // namespace headrace
