// How the attention of a step is cut: into tiles of a few rows of one sequence and the query heads
// of one KV head, each as much as the registers of a kernel hold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace headrace {

struct AttentionTile {
  std::int32_t sequence;
  std::int32_t kv_head;
  std::int32_t head_begin;
  std::int32_t head_end;
  std::int32_t row_begin;
  std::int32_t row_end;
  std::int64_t cost;  // rows times keys
};

class AttentionTiles {
 public:
  /// Makes room for the tiles of steps of up to max_rows rows. tile_rows: rows times heads that a
  /// tile holds.
  void reserve(int max_rows, const AttentionShape& shape, int tile_rows);

  /// Takes the place of what was listed before: the costliest first, so that none is left over at
  /// the end.
  void list(const AttentionShape& shape, int tile_rows, std::span<const SequenceRows> sequences);

  std::int64_t size() const { return std::ssize(tiles_); }
  const AttentionTile& operator[](std::int64_t i) const {
    return tiles_[static_cast<std::size_t>(i)];
  }

 private:
  std::vector<AttentionTile> tiles_;
};

}  // namespace headrace
