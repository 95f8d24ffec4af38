// Causal attention over the paged cache, for decoded rows and rows of prompts alike.
//
// What is computed for a row depends on its position and its window alone, whatever kernel variant,
// tile, block size or cut of the prompt it runs in. Keys are walked in chunks of 64 from position 0
// with an online soft-max. On tensor cores, chunks are grouped in splits of kSplitKeys: each split
// starts afresh, and splits are merged in ascending order (merged). Decoded rows give each
// split to a block of its own and merge in a second kernel; tiles of prompts walk the splits and
// merge on the way. Same operations, same bits. A sink enters where all splits of a row are merged
// (pair_factor). What lies behind the last key of a tile is never read. A chunk that is wholly
// masked for a row leaves the row's state as it was, bit for bit. One reservation: the tensor cores
// multiply a masked value by zero, so where a later token's value is infinite or NaN, earlier rows
// of its sequence in the same tile are NaN too.
//
// float32, head dimensions above 256 or not of whole 16 bytes take the plain kernel: one warp a row
// and head, one chain a sum, no splits. It has the bits of the reference backend.
//
// Performance. Decode: bound by memory: 2 * keys * kv_heads * head_dim * bytes(T) a row and layer,
// once for all heads of a group. To meet: 75 % of the memory's rate (A100 80GB 2.0 TB/s, H100 3.35,
// H200 4.8) from 64 MB of keys and values on. Prompts: 4 * rows * keys seen * heads * head_dim
// FLOPs; mma.sync reaches about 60 % of what A100's tensor cores do (312 TFLOP/s in 16 bits) and,
// without Hopper's own instructions, 35 % of H100's and H200's (989). To meet: 45 % and 25 % from
// 2,000 rows on. The plain kernel is for golden tests and odd shapes: 10 % of memory's rate, not
// tuned.
#pragma once

#include <cstdint>

#include "kernels/cuda/paged_cache.h"
#include "kernels/cuda/stream.h"
#include "kernels/ops.h"

namespace headrace {

inline constexpr int kSplitKeys = 512;
inline constexpr int kChunksPerSplit = kSplitKeys / kAttentionChunk;

/// Rows of a tile are pairs (row of the sequence, query head of the group), numbered
/// row * group + head. A small tile has 16 of them and one warp, a large one 64 and four.
inline constexpr int kSmallTile = 16;
inline constexpr int kLargeTile = 64;

/// What one block of the tensor core kernels works on, for one KV head.
struct AttentionTile {
  std::int32_t sequence = 0;
  std::int32_t first = 0;     // its first pair
  std::int32_t split = -1;    // the split that a small tile works on
  std::int32_t partial = -1;  // where its sums go; -1: it is the only one and writes the output
};

/// Splits of one small tile that the second kernel merges.
struct AttentionMerge {
  std::int32_t sequence = 0;
  std::int32_t partial = 0;  // the first; the others follow
  std::int32_t count = 0;
};

struct AttentionLaunch {
  void* out = nullptr;      // [rows, heads * head_dim]
  const void* q = nullptr;  // the same
  AttentionShape shape;
  PagedCache cache;
  DType dtype = DType::kFloat32;

  // Plain kernel.
  const std::int32_t* row_sequence = nullptr;  // [rows], from first_row on
  std::int64_t first_row = 0;
  std::int64_t rows = 0;

  // Tensor core kernels. All arrays are on the device.
  const AttentionTile* small_tiles = nullptr;
  const AttentionTile* large_tiles = nullptr;
  const AttentionMerge* merges = nullptr;
  std::int64_t num_small_tiles = 0;
  std::int64_t num_large_tiles = 0;
  std::int64_t num_merges = 0;
  bool large_tiles_merge = false;  // some large tile walks more than one split
  float* partials = nullptr;       // partial_floats() a partial
};

/// Whether shape and type are of those that the tensor cores do.
bool takes_tensor_cores(const AttentionShape& shape, DType dtype);

/// Floats of one partial: for each KV head and pair of a small tile, head_dim sums, maximum, total.
std::int64_t partial_floats(const AttentionShape& shape);

void launch_attention(const AttentionLaunch& args, Stream stream);

}  // namespace headrace
