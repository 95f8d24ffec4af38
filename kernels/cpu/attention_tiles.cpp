#include "kernels/cpu/attention_tiles.h"

#include <algorithm>

#include "kernels/ceil_div.h"

namespace headrace {
namespace {

// Keys of a chunk of the online soft-max; tiles never cross a multiple of it.
constexpr std::int32_t kChunk = kAttentionChunk;

// Query heads of one KV head that do not fit a tile are worked on in this many near-equal subsets.
int head_subsets(const AttentionShape& shape, int tile_rows) {
  return static_cast<int>(ceil_div(shape.num_heads / shape.num_kv_heads, tile_rows));
}

// Keys that a tile reads whose first row is at `position`.
std::int64_t keys_read(const AttentionShape& shape, std::int32_t position) {
  const std::int64_t all = std::int64_t{position} + 1;
  return shape.window > 0 ? std::min<std::int64_t>(all, std::int64_t{shape.window} + kChunk) : all;
}

}  // namespace

void AttentionTiles::reserve(int max_rows, const AttentionShape& shape, int tile_rows) {
  tiles_.reserve(static_cast<std::size_t>(max_rows) *
                 static_cast<std::size_t>(shape.num_kv_heads * head_subsets(shape, tile_rows)));
}

void AttentionTiles::list(const AttentionShape& shape, int tile_rows,
                          std::span<const SequenceRows> sequences) {
  tiles_.clear();
  const int group = shape.num_heads / shape.num_kv_heads;
  const int subsets = head_subsets(shape, tile_rows);
  const std::int32_t tile_positions =
      std::max<std::int32_t>(1, tile_rows / static_cast<std::int32_t>(ceil_div(group, subsets)));
  for (std::int32_t s = 0; s < std::ssize(sequences); ++s) {
    const SequenceRows& sequence = sequences[static_cast<std::size_t>(s)];
    for (std::int32_t begin = 0; begin < sequence.num_rows;) {
      const std::int32_t position = sequence.first_position + begin;
      const std::int32_t end =
          std::min({begin + tile_positions, begin + kChunk - position % kChunk, sequence.num_rows});
      for (int kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
        for (int subset = 0; subset < subsets; ++subset) {
          tiles_.push_back({.sequence = s,
                            .kv_head = kv_head,
                            .head_begin = kv_head * group + subset * group / subsets,
                            .head_end = kv_head * group + (subset + 1) * group / subsets,
                            .row_begin = begin,
                            .row_end = end,
                            .cost = std::int64_t{end - begin} * keys_read(shape, position)});
        }
      }
      begin = end;
    }
  }
  std::sort(tiles_.begin(), tiles_.end(), [](const AttentionTile& a, const AttentionTile& b) {
    if (a.cost != b.cost) return a.cost > b.cost;
    if (a.sequence != b.sequence) return a.sequence < b.sequence;
    return a.kv_head < b.kv_head;
  });
}

}  // namespace headrace
