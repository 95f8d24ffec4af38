// Host memory in which blocks of a KV cache wait while their sequences have none in the cache: on a
// CPU more of the same memory, beside a GPU pinned memory that it copies to and from by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace headrace {

/// A block of the cache and one of the swap memory; one of them is copied to the other.
struct BlockSwap {
  std::int32_t block = 0;
  std::int32_t swap_block = 0;

  friend bool operator==(const BlockSwap&, const BlockSwap&) = default;
};

/// Where the blocks of a cache lie: each is num_pieces pieces of piece_bytes bytes. Piece p of
/// block b is at data + p * piece_stride + b * piece_bytes.
struct BlockPieces {
  std::byte* data = nullptr;
  std::size_t piece_bytes = 0;
  std::size_t piece_stride = 0;
  int num_pieces = 0;
  int num_blocks = 0;

  std::size_t block_bytes() const { return piece_bytes * static_cast<std::size_t>(num_pieces); }
  std::byte* piece(int block, int index) const {
    return data + static_cast<std::size_t>(index) * piece_stride +
           static_cast<std::size_t>(block) * piece_bytes;
  }
};

class SwapMemory {
 public:
  virtual ~SwapMemory() = default;

  /// Copies blocks of the cache into the swap memory, behind the operators that were called before
  /// and before those that follow. No block of either side is named twice. Throws std::logic_error
  /// for one that is not there.
  virtual void save(std::span<const BlockSwap> blocks) = 0;

  /// The same back.
  virtual void restore(std::span<const BlockSwap> blocks) = 0;
};

/// Of a cache in host memory. Throws std::bad_alloc.
std::unique_ptr<SwapMemory> make_host_swap_memory(const BlockPieces& cache, int num_swap_blocks);

/// Throws std::logic_error where one of the blocks is not there.
void require_swaps(std::span<const BlockSwap> blocks, int num_blocks, int num_swap_blocks);

}  // namespace headrace
