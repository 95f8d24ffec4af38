#include "kernels/cuda/rope.h"

#include "kernels/cuda/element.h"
#include "kernels/cuda/elementwise_kernel.h"
#include "kernels/cuda/paged_access.h"
#include "kernels/cuda/simt.h"

namespace headrace {
namespace {

constexpr int kMostThreads = 256;

template <int kCount>
HR_DEVICE Pack<float, kCount> turned(const float* head, const float* cos_sin, int dim,
                                     int rotary_dim) {
  Pack<float, kCount> own = load_floats<kCount>(head + dim);
  if (dim >= rotary_dim) return own;
  const int half = rotary_dim / 2;
  const bool first = dim < half;
  const int i = first ? dim : dim - half;
  const Pack<float, kCount> other = load_floats<kCount>(head + (first ? dim + half : i));
  for (int e = 0; e < kCount; ++e) {
    const float cos = cos_sin[i + e];
    const float sin = cos_sin[half + i + e];
    const float a = own.items[e];
    const float b = other.items[e];
    own.items[e] = first ? a * cos - b * sin : a * cos + b * sin;
  }
  return own;
}

// A block has one row: queries, then keys, then values, head by head.
template <class T, int kCount>
HR_KERNEL(kMostThreads, 4)
rope_kernel(RopeLaunch args) {
  const AttentionShape& shape = args.shape;
  const std::int64_t row = args.first_row + block_x();
  const DeviceSequence sequence = args.cache.sequences[args.row_sequence[block_x()]];
  const int position = sequence.first_position + static_cast<int>(row) - sequence.first_row;
  const int dim_count = shape.head_dim;
  const int num_heads = shape.num_heads + 2 * shape.num_kv_heads;
  const float* cos_sin = args.cos_sin + row * shape.rotary_dim;
  const float* heads = args.qkv + row * num_heads * dim_count;
  T* queries = static_cast<T*>(args.q_out) + row * shape.num_heads * dim_count;
  for (int i = thread_index() * kCount; i < num_heads * dim_count; i += block_threads() * kCount) {
    const int head = i / dim_count;
    const int dim = i % dim_count;
    const int kv_head = (head - shape.num_heads) % shape.num_kv_heads;
    const bool is_value = head >= shape.num_heads + shape.num_kv_heads;
    const float* source = heads + head * dim_count;
    T* target = queries + i;
    if (head >= shape.num_heads) {
      target = key_of<T>(args.cache, sequence, position, kv_head) + dim +
               (is_value ? value_offset(args.cache) : 0);
    }
    store_floats<kCount>(target, is_value ? load_floats<kCount>(source + dim)
                                          : turned<kCount>(source, cos_sin, dim, shape.rotary_dim));
  }
}

template <class T>
void launch_for(const RopeLaunch& args, Stream stream) {
  const auto fours = [](int count) { return count % kElementwisePack == 0; };
  const bool packs = fours(args.shape.head_dim) && fours(args.shape.rotary_dim / 2) &&
                     all_aligned({args.q_out, args.qkv, args.cache.data}) &&
                     args.cache.block_bytes % 16 == 0;
  const std::int64_t elements =
      std::int64_t{args.shape.num_heads + 2 * args.shape.num_kv_heads} * args.shape.head_dim;
  const LaunchShape shape{
      .grid_x = args.rows,
      .threads = threads_for(elements / (packs ? kElementwisePack : 1), kMostThreads)};
  if (packs) {
    launch(rope_kernel<T, kElementwisePack>, shape, stream, args);
  } else {
    launch(rope_kernel<T, 1>, shape, stream, args);
  }
}

}  // namespace

void launch_rope_and_store_kv(const RopeLaunch& args, Stream stream) {
  with_element_type(args.dtype,
                    [&](auto type) { launch_for<typename decltype(type)::type>(args, stream); });
}

}  // namespace headrace
