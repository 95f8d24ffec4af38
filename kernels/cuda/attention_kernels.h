// The tensor core kernels of attention (attention.h), for one 16-bit type.
#pragma once

#include "kernels/cuda/attention_tile.h"

namespace headrace {

// Streams the tile's chunks through shared memory: while scores are computed values arrive, while
// values are added up the next keys do.
template <class T, int kDim, int kWarps>
class ChunkLoop {
  using Sizes = TileSizes<kDim, kWarps>;

 public:
  HR_DEVICE ChunkLoop(const AttentionLaunch& args, const TilePlace& place)
      : args_(args), place_(place) {
    queries_ = shared_.take<T>(Sizes::queries());
    keys_ = shared_.take<T>(Sizes::keys());
    values_ = shared_.take<T>(Sizes::keys());
    load_queries<T, kDim, kWarps>(queries_, args_, place_);
    load_chunk<T, kDim, kWarps, false>(keys_, args_, place_, place_.chunk_begin);
    close_copy_group();
  }

  HR_DEVICE SharedMemory& shared() { return shared_; }

  HR_DEVICE void step(WarpTile<T, kDim, kWarps>& tile, int chunk) {
    sync_block();  // all have added the values before
    load_chunk<T, kDim, kWarps, true>(values_, args_, place_, chunk);
    close_copy_group();
    wait_for_copies<1>();
    sync_block();  // everyone's keys are there
    tile.score(queries_, keys_);
    sync_block();  // all are done with the keys
    if (chunk + 1 < place_.chunk_end) {
      load_chunk<T, kDim, kWarps, false>(keys_, args_, place_, chunk + 1);
    }
    close_copy_group();
    tile.weigh(chunk);
    wait_for_copies<1>();
    sync_block();  // everyone's values are there
    tile.add_values(values_);
  }

 private:
  const AttentionLaunch& args_;
  const TilePlace& place_;
  SharedMemory shared_;
  T* queries_;
  T* keys_;
  T* values_;
};

template <class T, int kDim, int kWarps>
HR_DEVICE void write_output(const AttentionLaunch& args, const TilePlace& place,
                            const WarpTile<T, kDim, kWarps>& tile) {
  T* out = static_cast<T*>(args.out);
  float factors[2];  // a pair that is not there has a head all the same
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int pair = place.first + tile.pair_in_tile(half);
    factors[half] = pair_factor(args, place, pair, {tile.max(half), tile.total(half)});
  }
  tile.for_each_sum([&](int half, int dim, float low, float high) {
    const int pair = place.first + tile.pair_in_tile(half);
    if (pair >= place.num_pairs) return;
    *reinterpret_cast<std::uint32_t*>(out + pair_offset(args, place, pair) + dim) =
        pack_pair<T>(finished(low, factors[half]), finished(high, factors[half]));
  });
}

/// One partial: [kv_heads][kSmallTile][head_dim sums, maximum, total].
HR_DEVICE float* partial_of(const AttentionLaunch& args, std::int64_t partial, int kv_head,
                            int pair) {
  const std::int64_t row = (partial * args.shape.num_kv_heads + kv_head) * kSmallTile + pair;
  return args.partials + row * (args.shape.head_dim + 2);
}

template <class T, int kDim>
HR_DEVICE void write_partial(const AttentionLaunch& args, const TilePlace& place, int partial,
                             const WarpTile<T, kDim, 1>& tile) {
  const int dim_count = args.shape.head_dim;
  tile.for_each_sum([&](int half, int dim, float low, float high) {
    const int pair = tile.pair_in_tile(half);
    if (pair >= place.num_pairs) return;
    float* row = partial_of(args, partial, place.kv_head, pair);
    row[dim] = low;
    row[dim + 1] = high;
  });
  if (lane_index() % 4 != 0) return;  // four lanes know a pair's maximum and total
  for (int half = 0; half < 2; ++half) {
    const int pair = tile.pair_in_tile(half);
    if (pair >= place.num_pairs) continue;
    float* row = partial_of(args, partial, place.kv_head, pair);
    row[dim_count] = tile.max(half);
    row[dim_count + 1] = tile.total(half);
  }
}

template <class T, int kDim>
HR_KERNEL(kWarpThreads, 4)
small_tile_kernel(AttentionLaunch args) {
  const AttentionTile work = args.small_tiles[block_x()];
  const TilePlace place = place_of(args, work, kSmallTile);
  WarpTile<T, kDim, 1> tile(args, place);
  ChunkLoop<T, kDim, 1> loop(args, place);
  for (int chunk = place.chunk_begin; chunk < place.chunk_end; ++chunk) loop.step(tile, chunk);
  if (work.partial < 0) return write_output(args, place, tile);
  write_partial(args, place, work.partial, tile);
}

template <class T, int kDim>
HR_KERNEL(4 * kWarpThreads, 1)
large_tile_kernel(AttentionLaunch args) {
  constexpr int kWarps = kLargeTile / kWarpPairs;
  const AttentionTile work = args.large_tiles[block_x()];
  const TilePlace place = place_of(args, work, kLargeTile);
  WarpTile<T, kDim, kWarps> tile(args, place);
  ChunkLoop<T, kDim, kWarps> loop(args, place);
  const bool merges =
      place.chunk_begin / kChunksPerSplit != (place.chunk_end - 1) / kChunksPerSplit;
  float* totals = loop.shared().template take<float>(
      args.large_tiles_merge ? TileSizes<kDim, kWarps>::totals() : 0);
  float max[2] = {kNothingSeen, kNothingSeen};
  float total[2] = {0.0F, 0.0F};
  for (int chunk = place.chunk_begin; chunk < place.chunk_end; ++chunk) {
    loop.step(tile, chunk);
    const bool ends = chunk + 1 == place.chunk_end || (chunk + 1) % kChunksPerSplit == 0;
    if (!merges || !ends) continue;
    tile.merge_into(totals, max, total);
    tile.restart();
  }
  if (merges) tile.take_totals(totals, max, total);
  write_output(args, place, tile);
}

// A block merges one head of one small tile's pairs, a thread takes dimensions.
template <class T>
HR_KERNEL(kAttentionChunk, 8)
merge_kernel(AttentionLaunch args) {
  const AttentionMerge work = args.merges[block_x()];
  const TilePlace place = place_of(args, {.sequence = work.sequence}, kSmallTile);
  T* out = static_cast<T*>(args.out);
  const int dim_count = args.shape.head_dim;
  for (int pair = 0; pair < place.num_pairs; ++pair) {
    for (int dim = thread_index(); dim < dim_count; dim += kAttentionChunk) {
      float max = kNothingSeen;
      float total = 0.0F;
      float sum = 0.0F;
      for (int split = 0; split < work.count; ++split) {
        const float* row = partial_of(args, work.partial + split, place.kv_head, pair);
        const MergeFactors factors = merge_factors(max, row[dim_count]);
        sum = merged(factors, sum, row[dim]);
        total = merged(factors, total, row[dim_count + 1]);
        max = factors.max;
      }
      const float factor = pair_factor(args, place, pair, {max, total});
      out[pair_offset(args, place, pair) + dim] = from_float<T>(finished(sum, factor));
    }
  }
}

template <class T, int kDim>
void launch_tiles(const AttentionLaunch& args, Stream stream) {
  const std::int64_t kv_heads = args.shape.num_kv_heads;
  constexpr int kWarps = kLargeTile / kWarpPairs;
  launch(small_tile_kernel<T, kDim>,
         {.grid_x = args.num_small_tiles,
          .grid_y = kv_heads,
          .threads = kWarpThreads,
          .shared_bytes = TileSizes<kDim, 1>::shared_bytes(false)},
         stream, args);
  launch(merge_kernel<T>,
         {.grid_x = args.num_merges, .grid_y = kv_heads, .threads = kAttentionChunk}, stream, args);
  launch(large_tile_kernel<T, kDim>,
         {.grid_x = args.num_large_tiles,
          .grid_y = kv_heads,
          .threads = kWarpThreads * kWarps,
          .shared_bytes = TileSizes<kDim, kWarps>::shared_bytes(args.large_tiles_merge)},
         stream, args);
}

/// launch_attention() of one type, for shapes that the tensor cores do.
template <class T>
void launch_tile_attention(const AttentionLaunch& args, Stream stream) {
  if (args.shape.head_dim <= 64) return launch_tiles<T, 64>(args, stream);
  if (args.shape.head_dim <= 128) return launch_tiles<T, 128>(args, stream);
  return launch_tiles<T, 256>(args, stream);
}

extern template void launch_tile_attention<BFloat16>(const AttentionLaunch&, Stream);
extern template void launch_tile_attention<Float16>(const AttentionLaunch&, Stream);

}  // namespace headrace
