#include "kernels/cuda/swap_blocks.h"

#include <stdexcept>
#include <string>

#include "kernels/cuda/elementwise_kernel.h"

namespace headrace {
namespace {

// A row is a piece of a block.
template <bool kToCache>
struct MoveBlocksOp {
  float* cache;
  float* gathered;
  std::int64_t piece_stride;  // in floats, like cols
  std::int64_t cols;
  std::uint32_t num_pieces;
  std::int32_t blocks[kMaxMovedBlocks] = {};

  template <int kCount>
  HR_DEVICE void apply(std::int64_t row, std::int64_t column) const {
    // In 32 bits, which a division takes far fewer instructions for.
    const auto index = static_cast<std::uint32_t>(row);
    const std::int64_t block = blocks[index / num_pieces];
    const std::int64_t piece = index % num_pieces;
    float* const apart = cache + piece * piece_stride + block * cols + column;
    float* const together = gathered + row * cols + column;
    if constexpr (kToCache) {
      store_pack<kCount>(apart, load_pack<kCount>(static_cast<const float*>(together)));
    } else {
      store_pack<kCount>(together, load_pack<kCount>(static_cast<const float*>(apart)));
    }
  }
};

template <bool kToCache>
void move_blocks(const MoveBlocksLaunch& args, Stream stream) {
  constexpr std::size_t kUnit = sizeof(float);
  const BlockPieces& cache = args.cache;
  if (args.blocks.size() > kMaxMovedBlocks) {
    throw std::invalid_argument("swap: " + std::to_string(args.blocks.size()) +
                                " blocks at a time, at most " + std::to_string(kMaxMovedBlocks) +
                                " on the GPU");
  }
  if ((cache.piece_bytes | cache.piece_stride) % kUnit != 0) {
    throw std::invalid_argument("blocks on the GPU are copied in multiples of 4 bytes");
  }
  MoveBlocksOp<kToCache> op{.cache = reinterpret_cast<float*>(cache.data),
                            .gathered = reinterpret_cast<float*>(args.gathered),
                            .piece_stride = static_cast<std::int64_t>(cache.piece_stride / kUnit),
                            .cols = static_cast<std::int64_t>(cache.piece_bytes / kUnit),
                            .num_pieces = static_cast<std::uint32_t>(cache.num_pieces)};
  for (std::size_t i = 0; i < args.blocks.size(); ++i) op.blocks[i] = args.blocks[i].block;
  const std::int64_t rows = std::ssize(args.blocks) * cache.num_pieces;
  launch_elementwise(
      op, {rows, op.cols, {cache.data, cache.data + cache.piece_stride, args.gathered}}, stream);
}

}  // namespace

void launch_gather_blocks(const MoveBlocksLaunch& args, Stream stream) {
  move_blocks<false>(args, stream);
}

void launch_scatter_blocks(const MoveBlocksLaunch& args, Stream stream) {
  move_blocks<true>(args, stream);
}

}  // namespace headrace
