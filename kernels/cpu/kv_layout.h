// Layout of one block of the KV cache, in dwords. A dword holds a group of elements that lie beside
// each other in the sum they enter, dimensions of a key or tokens of a value: one float32, two
// bfloat16, or four int8 plus 128.
//
//   block = [kv_heads] of: keys   [block_tokens / 16][ceil(head_dim / group)][16 tokens]
//                          values [block_tokens / group][value_stride]
//                          int8: scales of the keys, then of the values, bfloat16 [block_tokens]
//                          each
//
// Both are read by the same register tile as a weight panel, without a horizontal sum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

namespace headrace {

struct KvLayout {
  std::int64_t key_steps = 0;      // dwords of one key
  std::int64_t value_stride = 0;   // head_dim, rounded up to whole registers
  std::int64_t values_offset = 0;  // of a head's values behind its keys
  std::int64_t scales_offset = 0;  // of a head's scales behind its keys
  std::int64_t head_dwords = 0;    // all of one head
};

KvLayout make_kv_layout(const AttentionShape& shape, int block_tokens, DType dtype);

std::size_t kv_layout_bytes(const AttentionShape& shape, int block_tokens, DType dtype);

}  // namespace headrace
