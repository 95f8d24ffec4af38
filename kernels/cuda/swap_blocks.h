// Blocks of a KV cache on their way to host memory and back: their pieces, which lie apart in the
// cache, are gathered into one piece of the device's memory or scattered from it, so that one copy
// of all takes them over the bus.
//
// Performance: a block's bytes are read once and written once, 16 bytes an access, so it is bound
// by memory: 2 * blocks * block_bytes at 85 % of its rate (H200 4.8 TB/s). The bus bounds what
// follows or went before: blocks * block_bytes at some 50 GB/s over PCIe 5 (25 over PCIe 4), beside
// which gathering is 2 to 3 %. For Llama-3.1-8B in bfloat16, 131 KB a token, a sequence of 4,096
// tokens goes or comes in 11 ms; computing it again is 66 TFLOP, 110 ms at 600 TFLOP/s. Without
// gathering it would be 32 copies of 64 KiB for every 16 tokens, each of which costs the host 2 us
// or more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/stream.h"
#include "kernels/swap_memory.h"

namespace headrace {

/// Most blocks that one launch takes: they travel as arguments of the kernel.
inline constexpr int kMaxMovedBlocks = 512;

struct MoveBlocksLaunch {
  BlockPieces cache;                  // pieces of whole floats
  std::span<const BlockSwap> blocks;  // of the cache; at most kMaxMovedBlocks
  std::byte* gathered = nullptr;      // [blocks][pieces], in the order of `blocks`
};
void launch_gather_blocks(const MoveBlocksLaunch& args, Stream stream);
void launch_scatter_blocks(const MoveBlocksLaunch& args, Stream stream);

}  // namespace headrace
