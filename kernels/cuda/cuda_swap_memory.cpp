#include "kernels/cuda/cuda_swap_memory.h"

#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/swap_blocks.h"

namespace headrace {
namespace {

// What is gathered at a time: large enough that the bus is busy for a millisecond.
constexpr std::size_t kGatheredBytes = std::size_t{64} << 20;

std::size_t num_gathered(std::size_t block_bytes, int num_swap_blocks) {
  const std::size_t by_bytes = std::max<std::size_t>(1, kGatheredBytes / block_bytes);
  return std::min({by_bytes, static_cast<std::size_t>(num_swap_blocks),
                   static_cast<std::size_t>(kMaxMovedBlocks)});
}

}  // namespace

std::size_t CudaSwapMemory::taken_bytes(std::size_t block_bytes, int num_swap_blocks) {
  if (block_bytes == 0 || num_swap_blocks == 0) return 0;
  return arena_bytes(num_gathered(block_bytes, num_swap_blocks) * block_bytes);
}

CudaSwapMemory::CudaSwapMemory(cudaStream_t stream, DeviceArena& arena, const BlockPieces& cache,
                               int num_swap_blocks)
    : stream_(stream),
      cache_(cache),
      num_swap_blocks_(num_swap_blocks),
      num_gathered_(num_gathered(cache.block_bytes(), num_swap_blocks)),
      gathered_(arena.take(num_gathered_ * cache.block_bytes())),
      memory_(cache.block_bytes() * static_cast<std::size_t>(num_swap_blocks)) {}

// What is queued still reads the pinned memory.
CudaSwapMemory::~CudaSwapMemory() {
  cudaStreamSynchronize(stream_);
}

// As many blocks at a time as can be gathered. The stream's order keeps the turns apart.
template <class Move>
void CudaSwapMemory::in_turns(std::span<const BlockSwap> blocks, const Move& move) const {
  require_swaps(blocks, cache_.num_blocks, num_swap_blocks_);
  for (std::size_t at = 0; at < blocks.size(); at += num_gathered_) {
    const auto turn = blocks.subspan(at, std::min(num_gathered_, blocks.size() - at));
    move(turn, MoveBlocksLaunch{.cache = cache_, .blocks = turn, .gathered = gathered_});
  }
}

// Swap blocks that follow each other are one copy: copy(gathered, pinned, bytes).
template <class Copy>
void CudaSwapMemory::for_runs(std::span<const BlockSwap> blocks, const Copy& copy) const {
  const std::size_t bytes = cache_.block_bytes();
  for (std::size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
    for (end = begin + 1; end < blocks.size(); ++end) {
      if (blocks[end].swap_block != blocks[end - 1].swap_block + 1) break;
    }
    const auto first = static_cast<std::size_t>(blocks[begin].swap_block);
    copy(gathered_ + begin * bytes, memory_.data() + first * bytes, (end - begin) * bytes);
  }
}

void CudaSwapMemory::save(std::span<const BlockSwap> blocks) {
  in_turns(blocks, [&](std::span<const BlockSwap> turn, const MoveBlocksLaunch& launch) {
    launch_gather_blocks(launch, stream_);
    for_runs(turn, [&](const std::byte* gathered, std::byte* pinned, std::size_t bytes) {
      HR_CUDA(cudaMemcpyAsync(pinned, gathered, bytes, cudaMemcpyDeviceToHost, stream_));
    });
  });
}

void CudaSwapMemory::restore(std::span<const BlockSwap> blocks) {
  in_turns(blocks, [&](std::span<const BlockSwap> turn, const MoveBlocksLaunch& launch) {
    for_runs(turn, [&](std::byte* gathered, const std::byte* pinned, std::size_t bytes) {
      HR_CUDA(cudaMemcpyAsync(gathered, pinned, bytes, cudaMemcpyHostToDevice, stream_));
    });
    launch_scatter_blocks(launch, stream_);
  });
}

}  // namespace headrace
