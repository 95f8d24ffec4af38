// Which kernels a shape takes (attention.h).
#include "kernels/cuda/attention.h"

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_plain.h"

namespace headrace {

bool takes_tensor_cores(const AttentionShape& shape, DType dtype) {
  constexpr int kWidest = 256;
  return dtype != DType::kFloat32 && shape.head_dim % kPiece == 0 && shape.head_dim <= kWidest;
}

std::int64_t partial_floats(const AttentionShape& shape) {
  return std::int64_t{shape.num_kv_heads} * kSmallTile * (shape.head_dim + 2);
}

void launch_attention(const AttentionLaunch& args, Stream stream) {
  if (!takes_tensor_cores(args.shape, args.dtype)) return launch_plain_attention(args, stream);
  if (args.dtype == DType::kBFloat16) return launch_tile_attention<BFloat16>(args, stream);
  launch_tile_attention<Float16>(args, stream);
}

}  // namespace headrace
