// Attention of a tile of rows over the paged cache. Decode is bound by reading keys and values,
// prefill by multiply-adds. Keys are walked in chunks of 64 tokens from position 0 with an online
// soft-max; a tile never crosses a multiple of 64, so all its rows end in the same chunk, and what
// a row computes does not depend on how many rows share its tile. See simd_math.h for the unnamed
// namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd_gemm.h"
#include "kernels/cpu/simd_rows.h"

namespace headrace {
namespace {

inline constexpr int kChunk = kAttentionChunk;
inline constexpr int kMaxTileRows = 16;

// What the online soft-max of a tile's rows carries from chunk to chunk, a lane a row.
struct OnlineSoftMax {
  alignas(64) float max[kMaxTileRows];      // of the chunks before
  alignas(64) float total[kMaxTileRows];    // of theirs
  alignas(64) float new_max[kMaxTileRows];  // with the chunk at hand
  alignas(64) float added[kMaxTileRows];    // by it
  alignas(64) float rescale[kMaxTileRows];  // of what came before it

  void start() {
    for (int r = 0; r < kMaxTileRows; ++r) {
      max[r] = -__builtin_inff();
      total[r] = 0.0F;
      new_max[r] = 0.0F;
      added[r] = 0.0F;
    }
  }

  // The largest score of row r in the chunk at hand.
  void take_max(int r, float found) { new_max[r] = max[r] < found ? found : max[r]; }

  // Takes in the chunk for the first `rows` rows, all of them together.
  template <class L>
  void advance(int rows) {
    static_assert(kMaxTileRows == 16);
    const auto old_max = L::load(max);
    const auto old_total = L::load(total);
    const auto now = L::load(new_max);
    const auto factor = exp16<L>(L::sub(old_max, now));
    L::store(rescale, factor);
    const auto sum = L::fma(old_total, factor, L::load(added));
    L::store(total, L::select_first(rows, sum, old_total));
    L::store(max, L::select_first(rows, now, old_max));
  }
};

// What a tile carries from chunk to chunk. `operands` holds the queries, `weights` first the scores
// of a chunk, then its probabilities as operands; `sums` the weighted values.
struct AttentionState {
  alignas(64) std::uint32_t operands[kMaxTileRows * kOperandStride];
  alignas(64) std::uint32_t weights[kMaxTileRows * kOperandStride];
  alignas(64) float sums[kMaxTileRows * kOperandStride];
  alignas(64) std::uint32_t last_value[kOperandStride];
  OnlineSoftMax soft_max;
};

// Consecutive steps of values that lie behind each other in memory, and where to find the next
// chunk's, which are only fetched.
struct ValueRun {
  const std::uint32_t* values;
  int steps;
  const std::uint32_t* next_values;
};
struct ValueRuns {
  ValueRun runs[kChunk / 16 + 1];
  int count = 0;
};

class BlockReader {
 public:
  explicit BlockReader(const AttentionArgs& args) : args_(args) {}

  /// Keys of the sixteen tokens from `position` on: [key_steps][16].
  const std::uint32_t* keys(int position) const {
    const int slot = position % args_.kv.block_tokens;
    return head(position) + slot / 16 * args_.layout.key_steps * kPanelColumns;
  }
  /// Values from `position` on, to the end of its block.
  const std::uint32_t* values(int position, int group) const {
    const int slot = position % args_.kv.block_tokens;
    return head(position) + args_.layout.values_offset + slot / group * args_.layout.value_stride;
  }
  /// Scales of int8 keys, or values, from `position` on, to the end of its block.
  const std::uint16_t* key_scales(int position) const {
    return reinterpret_cast<const std::uint16_t*>(head(position) + args_.layout.scales_offset) +
           position % args_.kv.block_tokens;
  }
  const std::uint16_t* value_scales(int position) const {
    return key_scales(position) + args_.kv.block_tokens;
  }

 private:
  const std::uint32_t* head(int position) const {
    const std::int64_t block = args_.sequence.blocks[position / args_.kv.block_tokens];
    const auto* heads = reinterpret_cast<const std::uint32_t*>(
        args_.kv.data + block * static_cast<std::int64_t>(args_.kv.block_bytes));
    return heads + args_.kv_head * args_.layout.head_dwords;
  }

  const AttentionArgs& args_;
};

// Where a row at `position` begins to see.
inline int seen_from(const AttentionArgs& args, int position) {
  const int window = args.shape.window;
  return window > 0 && position >= window ? position + 1 - window : 0;
}

// The positions of a tile's rows.
inline int first_position(const AttentionArgs& args) {
  return args.sequence.first_position + args.row_begin;
}
inline int last_position(const AttentionArgs& args) {
  return args.sequence.first_position + args.row_end - 1;
}

// What is read a chunk later: of the same tile, then of the one that the thread does next. Without
// fetching ahead, decoding waits for memory: of SmolLM2's heads `bench --kernels --part attention`
// took 37 to 146 ns a key at 1,024 and 4,096 keys, as busy as the machine was, and 32 to 34 ns with
// it (one thread).
class NextChunk {
 public:
  NextChunk(const AttentionArgs& own, const AttentionArgs* next)
      : own_(own), own_reader_(own), next_(next), next_reader_(next != nullptr ? *next : own) {}

  const std::uint32_t* keys(int position) const {
    const Place place = behind(position);
    return place.reader->keys(place.position);
  }
  const std::uint32_t* values(int position, int group) const {
    const Place place = behind(position);
    return place.reader->values(place.position, group);
  }

 private:
  struct Place {
    const BlockReader* reader;
    int position;
  };

  Place behind(int position) const {
    if (position + kChunk <= last_position(own_)) return {&own_reader_, position + kChunk};
    if (next_ != nullptr) {
      const int begin = seen_from(*next_, first_position(*next_)) / kChunk * kChunk;
      const int there = begin + position % kChunk;
      if (there <= last_position(*next_)) return {&next_reader_, there};
    }
    return {&own_reader_, position};
  }

  const AttentionArgs& own_;
  BlockReader own_reader_;
  const AttentionArgs* next_;
  BlockReader next_reader_;
};

// Scores of MR rows and NV groups of sixteen keys, times the scale. Meanwhile the next chunk's keys
// are fetched, line by line.
struct ScoreTile {
  const std::uint32_t* operands;
  const std::uint32_t* keys[4];
  const std::uint32_t* next_keys[4];
  std::int64_t steps;
  float scale;
  float* scores;
};
using ScoreFunction = void (*)(const ScoreTile&);

template <class F, int MR, int NV>
void score_tile(const ScoreTile& tile) {
  using L = typename F::Lanes;
  using Rows = StridedRows<F>;
  const std::uint32_t* w[NV];
  for (int v = 0; v < NV; ++v) w[v] = tile.keys[v];
  const std::uint32_t* a = tile.operands;
  Accumulators<L, MR, NV> acc;
  acc.clear();
  for (std::int64_t at = 0; at < tile.steps * kPanelColumns; at += kPanelColumns) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) __builtin_prefetch(tile.next_keys[v] + at, 0, 3);
    F::template step<Rows>(acc, a, w, at);
    a += Rows::kStep;
  }
  const auto scale = L::set1(tile.scale);
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      L::store(tile.scores + m * kOperandStride + v * 16, L::mul(acc.at[m][v], scale));
    }
  }
}

// sums[m] = sums[m] * rescale[m] + weights[m] times values, for NV registers of columns. Meanwhile
// values of the next chunk are fetched.
struct ValueTile {
  const std::uint32_t* weights;
  const ValueRuns* runs;
  std::int64_t column;
  std::int64_t value_stride;
  const float* rescale;
  float* sums;
};
using ValueFunction = void (*)(const ValueTile&);

template <class F, int MR, int NV>
void value_tile(const ValueTile& tile) {
  using L = typename F::Lanes;
  using Rows = StridedRows<F>;
  Accumulators<L, MR, NV> acc;
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
    const auto rescale = L::set1(tile.rescale[m]);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const float* sum = tile.sums + m * kOperandStride + tile.column + v * 16;
      acc.at[m][v] = L::mul(L::load(sum), rescale);
    }
  }
  const std::uint32_t* a = tile.weights;
  for (int i = 0; i < tile.runs->count; ++i) {
    const ValueRun& run = tile.runs->runs[i];
    const std::uint32_t* w[NV];
    for (int v = 0; v < NV; ++v) w[v] = run.values + tile.column + v * 16;
    const std::uint32_t* next = run.next_values + tile.column;
    for (std::int64_t at = 0; at < run.steps * tile.value_stride; at += tile.value_stride) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) __builtin_prefetch(next + at + v * 16, 0, 3);
      F::template step<Rows>(acc, a, w, at);
      a += Rows::kStep;
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      L::store(tile.sums + m * kOperandStride + tile.column + v * 16, acc.at[m][v]);
    }
  }
}

// Tile functions by registers side by side (1, 2, 4) and number of rows.
template <class F>
struct AttentionTiles {
  ScoreFunction score[5][F::Lanes::kTileRows + 1];
  ValueFunction value[5][F::Lanes::kTileRows + 1];
};

template <class F, int NV, int MR>
constexpr void fill_attention_tiles(AttentionTiles<F>& tiles) {
  using L = typename F::Lanes;
  if constexpr (MR <= L::kTileRows) {
    if constexpr (MR <= L::tile_rows(NV)) {
      tiles.score[NV][MR] = score_tile<F, MR, NV>;
      tiles.value[NV][MR] = value_tile<F, MR, NV>;
    }
    fill_attention_tiles<F, NV, MR + 1>(tiles);
  }
}

template <class F>
constexpr AttentionTiles<F> make_attention_tiles() {
  AttentionTiles<F> tiles{};
  fill_attention_tiles<F, 1, 1>(tiles);
  fill_attention_tiles<F, 2, 1>(tiles);
  fill_attention_tiles<F, 4, 1>(tiles);
  return tiles;
}

template <class F>
inline constexpr AttentionTiles<F> kAttentionTiles = make_attention_tiles<F>();

// Registers the next tile takes of `left`, for a number of rows.
template <class L>
int registers_for(int rows, std::int64_t left) {
  const int most = panels_for<L>(rows);
  return most >= 4 && left >= 4 ? 4 : most >= 2 && left >= 2 ? 2 : 1;
}

// Keys [behind, visible) of a chunk, which are what a row sees of it. Most rows of a long prompt
// see the whole of most chunks, and then nothing has to be masked.
struct SeenKeys {
  int behind;
  int visible;
  bool all() const { return behind == 0 && visible == kChunk; }
};

// The largest of a chunk's scores of keys that are seen.
template <class L>
float chunk_max(const float* row, SeenKeys seen) {
  if (seen.all()) {
    const auto first = L::max(L::load(row), L::load(row + 16));
    return L::max_lane(L::max(first, L::max(L::load(row + 32), L::load(row + 48))));
  }
  const auto lowest = L::set1(-__builtin_inff());
  auto max = lowest;
  for (int t = 0; t < seen.visible; t += 16) {
    auto s = L::select_first(lanes_at(t, seen.visible), L::load(row + t), lowest);
    if (t < seen.behind) s = L::select_first(lanes_at(t, seen.behind), lowest, s);
    max = L::max(max, s);
  }
  return L::max_lane(max);
}

// Zero in the lanes of keys that are not in [behind, visible); the first lane is key t.
template <class L>
typename L::V seen_lanes(typename L::V v, int t, int behind, int visible) {
  v = L::select_first(lanes_at(t, visible), v, L::zero());
  return t < behind ? L::select_first(lanes_at(t, behind), L::zero(), v) : v;
}

template <class L>
void cap_scores(float* row, int visible, float soft_cap) {
  const auto cap = L::set1(soft_cap);
  for (int t = 0; t < visible; t += 16) L::store(row + t, soft_cap16<L>(L::load(row + t), cap));
}

// The rows of a tile, and how they walk the chunks.
class AttentionRows {
 protected:
  AttentionRows(const AttentionArgs& args, const AttentionArgs* next)
      : args_(args),
        reader_(args),
        next_chunk_(args, next),
        heads_(args.head_end - args.head_begin),
        rows_((args.row_end - args.row_begin) * heads_) {}

  int seen_from(int position) const { return headrace::seen_from(args_, position); }

  // Rows of the tile, the first of them at position `first`, that see a key of the chunk at
  // `begin`. Windows move on with the rows, so these come before those that do not.
  int rows_that_see(int begin, int first) const {
    int rows = rows_;
    while (seen_from(first + (rows - 1) / heads_) >= begin + kChunk) rows -= heads_;
    return rows;
  }

  std::int64_t element(int r) const {
    const std::int64_t row = args_.sequence.first_row + args_.row_begin + r / heads_;
    const std::int64_t head = args_.head_begin + r % heads_;
    return (row * args_.shape.num_heads + head) * args_.shape.head_dim;
  }

  // Chunk by chunk: task.score(begin, keys that any row sees, rows); task.soft_max(row, what it
  // sees) for each; task.end_soft_max(rows); task.add_values(begin, keys that all rows see, any
  // row, rows).
  template <class Task>
  void walk(Task& task) {
    const int first = first_position(args_);
    const int last = last_position(args_);
    for (int begin = seen_from(first) / kChunk * kChunk; begin <= last; begin += kChunk) {
      const int fewest = first + 1 - begin < kChunk ? first + 1 - begin : kChunk;
      const int most = last + 1 - begin < kChunk ? last + 1 - begin : kChunk;
      const int rows = rows_that_see(begin, first);
      task.score(begin, most, rows);
      for (int r = 0; r < rows; ++r) {
        const int behind = seen_from(first + r / heads_) - begin;
        const int visible = fewest + r / heads_;
        task.soft_max(r, {behind > 0 ? behind : 0, visible < kChunk ? visible : kChunk});
      }
      task.end_soft_max(rows);
      task.add_values(begin, fewest, most, rows);
    }
  }

  // What the sums of row r are multiplied by at the end.
  float last_factor(const OnlineSoftMax& state, int r) const {
    return attention_factor({.max = state.max[r], .total = state.total[r]}, args_.shape.sinks,
                            args_.head_begin + r % heads_);
  }

  // sums [rows, kOperandStride] as their soft-max ends, in format F.
  template <class F>
  void store_result(const float* sums, const OnlineSoftMax& state) const {
    using L = typename F::Lanes;
    const int dim = args_.shape.head_dim;
    for (int r = 0; r < rows_; ++r) {
      const auto factor = L::set1(last_factor(state, r));
      for (int d = 0; d < dim; d += 16) {
        const auto sum = L::load(sums + r * kOperandStride + d);
        F::store_elements(args_.out, element(r) + d, L::mul(sum, factor), lanes_at(d, dim));
      }
    }
  }

  const AttentionArgs& args_;
  BlockReader reader_;
  NextChunk next_chunk_;
  int heads_;
  int rows_;
};

// What tasks over a cache of the compute type share: everything but the products.
template <class F>
class SoftMaxRows : protected AttentionRows {
  using L = typename F::Lanes;

 protected:
  friend class AttentionRows;

  SoftMaxRows(const AttentionArgs& args, const AttentionArgs* next) : AttentionRows(args, next) {}

  void load_queries() {
    const int dim = args_.shape.head_dim;
    for (int r = 0; r < rows_; ++r) {
      for (int d = 0; d < dim; d += 16) {
        F::store_operands(state_.operands + r * kOperandStride, d,
                          F::load_elements(args_.q, element(r) + d, lanes_at(d, dim)));
        L::store(state_.sums + r * kOperandStride + d, L::zero());
      }
    }
    state_.soft_max.start();
  }

  float* scores(int r) {
    return reinterpret_cast<float*>(state_.weights) + static_cast<std::int64_t>(r) * kOperandStride;
  }

  // Turns the scores of a chunk into operands: zeros where the row does not see the key.
  void soft_max(int r, SeenKeys seen) {
    float* row = scores(r);
    if (args_.shape.soft_cap > 0.0F) cap_scores<L>(row, seen.visible, args_.shape.soft_cap);
    state_.soft_max.take_max(r, chunk_max<L>(row, seen));
    state_.soft_max.added[r] = seen.all() ? weigh_all(r) : weigh_seen(r, seen);
  }

  float weigh_all(int r) {
    const auto max = L::set1(state_.soft_max.new_max[r]);
    auto sum = L::zero();
#pragma GCC unroll 4
    for (int t = 0; t < kChunk; t += 16) {
      const auto weight = F::round(exp16<L>(L::sub(L::load(scores(r) + t), max)));
      sum = L::add(sum, weight);
      F::store_operands(state_.weights + r * kOperandStride, t, weight);
    }
    return L::sum(sum);
  }

  float weigh_seen(int r, SeenKeys seen) {
    const auto max = L::set1(state_.soft_max.new_max[r]);
    auto sum = L::zero();
    for (int t = 0; t < kChunk; t += 16) {
      auto weight = L::zero();
      if (t < seen.visible) {
        const auto e = F::round(exp16<L>(L::sub(L::load(scores(r) + t), max)));
        weight = seen_lanes<L>(e, t, seen.behind, seen.visible);
        sum = L::add(sum, weight);
      }
      F::store_operands(state_.weights + r * kOperandStride, t, weight);
    }
    return L::sum(sum);
  }

  void end_soft_max(int rows) {
    state_.soft_max.template advance<L>(rows);
  }

  AttentionState state_;
};

template <class F>
class AttentionTask : private SoftMaxRows<F> {
  using L = typename F::Lanes;

 public:
  AttentionTask(const AttentionArgs& args, const AttentionArgs* next)
      : SoftMaxRows<F>(args, next) {}

  void run() {
    this->load_queries();
    this->walk(*this);
    this->template store_result<F>(state_.sums, state_.soft_max);
  }

 private:
  friend class AttentionRows;
  using AttentionRows::args_;
  using AttentionRows::heads_;
  using AttentionRows::next_chunk_;
  using AttentionRows::reader_;
  using AttentionRows::rows_;
  using SoftMaxRows<F>::state_;

  void score(int begin, int most, int rows) {
    const int groups = (most + 15) / 16;
    for (int group = 0; group < groups;) {
      const int width = registers_for<L>(rows, groups - group);
      ScoreTile tile{.operands = state_.operands,
                     .keys = {},
                     .next_keys = {},
                     .steps = args_.layout.key_steps,
                     .scale = args_.shape.scale,
                     .scores = this->scores(0) + group * 16};
      for (int v = 0; v < width; ++v) {
        tile.keys[v] = reader_.keys(begin + (group + v) * 16);
        tile.next_keys[v] = next_chunk_.keys(begin + (group + v) * 16);
      }
      kAttentionTiles<F>.score[width][rows](tile);
      group += width;
    }
  }

  void add_values(int begin, int fewest, int most, int rows) {
    if (fewest == most) {
      add_values_to(0, rows, begin, 0, most);
    } else {
      add_last_values(begin, fewest);
    }
  }

  // The last chunk of a tile of several positions: first what all of them see (maybe nothing, but
  // it rescales the sums), then, position by position, the rest.
  void add_last_values(int begin, int fewest) {
    const int common = fewest / F::kGroup * F::kGroup;
    add_values_to(0, rows_, begin, 0, common);
    for (int r = 0; r < rows_; ++r) state_.soft_max.rescale[r] = 1.0F;
    for (int r = 0; r < rows_; r += heads_) {
      const int visible = fewest + r / heads_;
      if (visible > common) add_values_to(r, heads_, begin, common, visible);
    }
  }

  // Adds tokens [from, to) of the chunk to `count` rows from `first` on.
  void add_values_to(int first, int count, int begin, int from, int to) {
    const ValueRuns runs = find_values(begin, from, to);
    const std::int64_t registers = args_.layout.value_stride / 16;
    for (std::int64_t column = 0; column < registers;) {
      const int width = registers_for<L>(count, registers - column);
      const std::int64_t weights_at = from / F::kGroup * F::kDwordsPerStep;
      const ValueTile tile{
          .weights = state_.weights + first * kOperandStride + weights_at,
          .runs = &runs,
          .column = column * 16,
          .value_stride = args_.layout.value_stride,
          .rescale = state_.soft_max.rescale + first,
          .sums = state_.sums + static_cast<std::int64_t>(first) * kOperandStride,
      };
      kAttentionTiles<F>.value[width][count](tile);
      column += width;
    }
  }

  ValueRuns find_values(int begin, int from, int to) {
    ValueRuns found;
    const int whole = to / F::kGroup * F::kGroup;
    for (int t = from; t < whole;) {
      const int slot = (begin + t) % args_.kv.block_tokens;
      const int in_block = args_.kv.block_tokens - slot;
      const int tokens = whole - t < in_block ? whole - t : in_block;
      found.runs[found.count++] = {reader_.values(begin + t, F::kGroup), tokens / F::kGroup,
                                   next_chunk_.values(begin + t, F::kGroup)};
      t += tokens;
    }
    if (whole < to) {
      // Half of the last pair is a token that the row must not see.
      const std::uint32_t* pair = reader_.values(begin + whole, F::kGroup);
      for (std::int64_t d = 0; d < args_.layout.value_stride; ++d) {
        state_.last_value[d] = pair[d] & 0xFFFFU;
      }
      found.runs[found.count++] = {state_.last_value, 1, state_.last_value};
    }
    return found;
  }
};

template <class F>
void attention(const AttentionArgs& args, const AttentionArgs* next) {
  AttentionTask<F> task(args, next);
  task.run();
}

}  // namespace
}  // namespace headrace
