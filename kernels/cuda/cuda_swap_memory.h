// Pinned host memory for blocks of a KV cache on the GPU. All is queued on the stream of the
// operators and nothing waits for it: the host never looks at what lies there.
#pragma once

#include <cstddef>

#include "kernels/cuda/handles.h"
#include "kernels/device_arena.h"
#include "kernels/swap_memory.h"

namespace headrace {

class CudaSwapMemory final : public SwapMemory {
 public:
  /// Takes taken_bytes() of the arena, whose memory the cache is of, too.
  CudaSwapMemory(cudaStream_t stream, DeviceArena& arena, const BlockPieces& cache,
                 int num_swap_blocks);
  ~CudaSwapMemory() override;
  CudaSwapMemory(const CudaSwapMemory&) = delete;
  CudaSwapMemory& operator=(const CudaSwapMemory&) = delete;

  static std::size_t taken_bytes(std::size_t block_bytes, int num_swap_blocks);

  void save(std::span<const BlockSwap> blocks) override;
  void restore(std::span<const BlockSwap> blocks) override;

 private:
  template <class Move>
  void in_turns(std::span<const BlockSwap> blocks, const Move& move) const;
  template <class Copy>
  void for_runs(std::span<const BlockSwap> blocks, const Copy& copy) const;

  cudaStream_t stream_;
  BlockPieces cache_;
  int num_swap_blocks_;
  std::size_t num_gathered_;  // blocks that `gathered_` has room for
  std::byte* gathered_;
  PinnedMemory memory_;
};

}  // namespace headrace
