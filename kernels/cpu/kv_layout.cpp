#include "kernels/cpu/kv_layout.h"

namespace headrace {

KvLayout make_kv_layout(const AttentionShape& shape, int block_tokens, DType dtype) {
  const int group = dtype == DType::kBFloat16 ? 2 : 1;
  KvLayout layout;
  layout.key_steps = shape.head_dim / group;
  layout.value_stride = (shape.head_dim + 15) / 16 * 16;
  layout.values_offset = block_tokens * layout.key_steps;
  layout.head_dwords = layout.values_offset + block_tokens / group * layout.value_stride;
  return layout;
}

std::size_t kv_layout_bytes(const AttentionShape& shape, int block_tokens, DType dtype) {
  const KvLayout layout = make_kv_layout(shape, block_tokens, dtype);
  return static_cast<std::size_t>(layout.head_dwords) *
         static_cast<std::size_t>(shape.num_kv_heads) * sizeof(std::uint32_t);
}

}  // namespace headrace
