#include "kernels/swap_memory.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/buffer.h"

namespace headrace {
namespace {

// A block's pieces lie one after the other.
class HostSwapMemory final : public SwapMemory {
 public:
  HostSwapMemory(const BlockPieces& cache, int num_swap_blocks)
      : cache_(cache),
        num_swap_blocks_(num_swap_blocks),
        memory_(cache.block_bytes() * static_cast<std::size_t>(num_swap_blocks)) {}

  void save(std::span<const BlockSwap> blocks) override {
    require_swaps(blocks, cache_.num_blocks, num_swap_blocks_);
    for_pieces(blocks, [](std::byte* cached, std::byte* swapped, std::size_t bytes) {
      std::memcpy(swapped, cached, bytes);
    });
  }

  void restore(std::span<const BlockSwap> blocks) override {
    require_swaps(blocks, cache_.num_blocks, num_swap_blocks_);
    for_pieces(blocks, [](std::byte* cached, const std::byte* swapped, std::size_t bytes) {
      std::memcpy(cached, swapped, bytes);
    });
  }

 private:
  template <class Copy>
  void for_pieces(std::span<const BlockSwap> blocks, const Copy& copy) const {
    for (const BlockSwap& swap : blocks) {
      std::byte* swapped =
          memory_.data() + static_cast<std::size_t>(swap.swap_block) * cache_.block_bytes();
      for (int p = 0; p < cache_.num_pieces; ++p) {
        copy(cache_.piece(swap.block, p), swapped, cache_.piece_bytes);
        swapped += cache_.piece_bytes;
      }
    }
  }

  BlockPieces cache_;
  int num_swap_blocks_;
  Buffer memory_;
};

}  // namespace

std::unique_ptr<SwapMemory> make_host_swap_memory(const BlockPieces& cache, int num_swap_blocks) {
  return std::make_unique<HostSwapMemory>(cache, num_swap_blocks);
}

void require_swaps(std::span<const BlockSwap> blocks, int num_blocks, int num_swap_blocks) {
  for (const BlockSwap& swap : blocks) {
    const bool is_there = swap.block >= 0 && swap.block < num_blocks && swap.swap_block >= 0 &&
                          swap.swap_block < num_swap_blocks;
    if (is_there) continue;
    throw std::logic_error("swap: block " + std::to_string(swap.block) + " of " +
                           std::to_string(num_blocks) + ", swap block " +
                           std::to_string(swap.swap_block) + " of " +
                           std::to_string(num_swap_blocks));
  }
}

}  // namespace headrace
