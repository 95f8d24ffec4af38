#include "kernels/cpu/kv_layout.h"

namespace headrace {

KvLayout make_kv_layout(const AttentionShape& shape, int block_tokens, DType dtype) {
  const bool int8 = shape.kv_type == KvType::kInt8;
  const int group = int8 ? 4 : dtype == DType::kBFloat16 ? 2 : 1;
  KvLayout layout;
  layout.key_steps = (shape.head_dim + group - 1) / group;
  layout.value_stride = (shape.head_dim + 15) / 16 * 16;
  layout.values_offset = block_tokens * layout.key_steps;
  layout.scales_offset = layout.values_offset + block_tokens / group * layout.value_stride;
  layout.head_dwords = layout.scales_offset + (int8 ? block_tokens : 0);
  return layout;
}

std::size_t kv_layout_bytes(const AttentionShape& shape, int block_tokens, DType dtype) {
  const KvLayout layout = make_kv_layout(shape, block_tokens, dtype);
  return static_cast<std::size_t>(layout.head_dwords) *
         static_cast<std::size_t>(shape.num_kv_heads) * sizeof(std::uint32_t);
}

}  // namespace headrace
