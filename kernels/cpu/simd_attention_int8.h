// Attention of a tile of rows over a cache of int8 keys and values: the walk of simd_attention.h,
// with exact integer products and the scales of ops.h. A token that a row does not see has a weight
// of zero, and integers that were never written are integers, so a tile needs no care at its end.
// See simd_math.h for the unnamed namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd_attention.h"
#include "kernels/cpu/simd_int8.h"

namespace headrace {
namespace {

// Dwords between rows of queries, [head_dim / 4] steps, and of weights, [kChunk / 4] steps; a step
// may take two.
inline constexpr int kInt8OperandStride = 256 + 16;
inline constexpr int kScoreStride = kChunk + 16;

template <class Q>
using Int8Rows = OperandRows<kInt8OperandStride, Q::kDwordsPerStep>;

struct Int8AttentionState {
  alignas(64) std::uint32_t queries[kMaxTileRows * kInt8OperandStride];
  alignas(64) std::uint32_t weights[kMaxTileRows * kInt8OperandStride];
  alignas(64) float scores[kMaxTileRows * kScoreStride];
  alignas(64) float sums[kMaxTileRows * kOperandStride];
  alignas(64) float key_scales[kChunk];
  alignas(64) float value_scales[kChunk];
  float query_scales[kMaxTileRows];  // times the scale of scores
  std::int32_t query_offsets[kMaxTileRows];
  float weight_scales[kMaxTileRows];
  std::int32_t weight_offsets[kMaxTileRows];
  OnlineSoftMax soft_max;
};

// Scores of MR rows and NV groups of sixteen keys.
struct Int8ScoreTile {
  const Int8AttentionState* state;
  const std::uint32_t* keys[4];
  const std::uint32_t* next_keys[4];
  std::int64_t steps;
  int first_key;
  float* scores;
};

template <class Q, int MR, int NV>
void int8_score_tile(const Int8ScoreTile& tile) {
  using L = typename Q::Lanes;
  const std::uint32_t* w[NV];
  for (int v = 0; v < NV; ++v) w[v] = tile.keys[v];
  const std::uint32_t* a = tile.state->queries;
  IntegerSums<Q, MR, NV> sums;
  start_sums(sums, tile.state->query_offsets);
  for (std::int64_t at = 0; at < tile.steps * kPanelColumns;
       at += kPanelColumns, a += Q::kDwordsPerStep) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) __builtin_prefetch(tile.next_keys[v] + at, 0, 3);
    Q::template step<Int8Rows<Q>>(sums, a, w, at);
  }
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    const auto key_scales = L::load(tile.state->key_scales + tile.first_key + v * 16);
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const auto factor = L::set1(tile.state->query_scales[m]);
      const auto score = L::mul(L::mul(Q::to_float(sums.at[m][v]), factor), key_scales);
      L::store(tile.scores + m * kScoreStride + v * 16, score);
    }
  }
}

// sums[m] = sums[m] * rescale[m] + weights[m] times values, for NV registers of columns.
struct Int8ValueTile {
  Int8AttentionState* state;
  const ValueRuns* runs;
  std::int64_t column;
  std::int64_t value_stride;
};

template <class Q, int MR, int NV>
void int8_value_tile(const Int8ValueTile& tile) {
  using L = typename Q::Lanes;
  IntegerSums<Q, MR, NV> sums;
  start_sums(sums, tile.state->weight_offsets);
  const std::uint32_t* a = tile.state->weights;
  for (int i = 0; i < tile.runs->count; ++i) {
    const ValueRun& run = tile.runs->runs[i];
    const std::uint32_t* w[NV];
    for (int v = 0; v < NV; ++v) w[v] = run.values + tile.column + v * 16;
    const std::uint32_t* next = run.next_values + tile.column;
    for (std::int64_t at = 0; at < run.steps * tile.value_stride;
         at += tile.value_stride, a += Q::kDwordsPerStep) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) __builtin_prefetch(next + at + v * 16, 0, 3);
      Q::template step<Int8Rows<Q>>(sums, a, w, at);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
    const auto scale = L::set1(tile.state->weight_scales[m]);
    const auto rescale = L::set1(tile.state->soft_max.rescale[m]);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      float* sum = tile.state->sums + m * kOperandStride + tile.column + v * 16;
      L::store(sum, L::fma(Q::to_float(sums.at[m][v]), scale, L::mul(L::load(sum), rescale)));
    }
  }
}

// Tile functions by registers side by side (1, 2, 4) and number of rows.
template <class Q>
struct Int8AttentionTiles {
  void (*score[5][Q::Lanes::kTileRows + 1])(const Int8ScoreTile&);
  void (*value[5][Q::Lanes::kTileRows + 1])(const Int8ValueTile&);

  constexpr Int8AttentionTiles() : score{}, value{} {
    fill<1, 1>();
    fill<2, 1>();
    fill<4, 1>();
  }

 private:
  template <int NV, int MR>
  constexpr void fill() {
    using L = typename Q::Lanes;
    if constexpr (MR <= L::kTileRows) {
      if constexpr (MR <= L::tile_rows(NV)) {
        score[NV][MR] = int8_score_tile<Q, MR, NV>;
        value[NV][MR] = int8_value_tile<Q, MR, NV>;
      }
      fill<NV, MR + 1>();
    }
  }
};

template <class Q>
inline constexpr Int8AttentionTiles<Q> kInt8AttentionTiles{};

// Queries and results are in format F.
template <class F, class Q>
class Int8AttentionTask : private AttentionRows {
  using L = typename Q::Lanes;
  static constexpr int kGroup = 4;

 public:
  Int8AttentionTask(const AttentionArgs& args, const AttentionArgs* next)
      : AttentionRows(args, next) {}

  void run() {
    load_queries();
    walk(*this);
    store_result<F>(state_.sums, state_.soft_max);
  }

 private:
  friend class AttentionRows;

  void load_queries() {
    const int dim = args_.shape.head_dim;
    for (int r = 0; r < rows_; ++r) {
      const Int8Group<F, Q> query{args_.q, element(r), element(r) + dim};
      const IntegerScale scale = query.scale();
      std::uint32_t* out = state_.queries + r * kInt8OperandStride;
      state_.query_offsets[r] = query.store(out, scale);
      state_.query_scales[r] = scale.scale * args_.shape.scale;
      for (int d = 0; d < dim; d += 16) {
        L::store(state_.sums + r * kOperandStride + d, L::zero());
      }
    }
    state_.soft_max.start();
  }

  void score(int begin, int most, int rows) {
    const int groups = (most + 15) / 16;
    for (int group = 0; group < groups; ++group) {
      const int key = group * 16;
      L::store(state_.key_scales + key, load_scales(reader_.key_scales(begin + key)));
      L::store(state_.value_scales + key, load_scales(reader_.value_scales(begin + key)));
    }
    for (int group = 0; group < groups;) {
      const int width = registers_for<L>(rows, groups - group);
      Int8ScoreTile tile{.state = &state_,
                         .keys = {},
                         .next_keys = {},
                         .steps = args_.layout.key_steps,
                         .first_key = group * 16,
                         .scores = state_.scores + group * 16};
      for (int v = 0; v < width; ++v) {
        tile.keys[v] = reader_.keys(begin + (group + v) * 16);
        tile.next_keys[v] = next_chunk_.keys(begin + (group + v) * 16);
      }
      kInt8AttentionTiles<Q>.score[width][rows](tile);
      group += width;
    }
  }

  // Turns the scores of a chunk into quantised weights of its values: zeros where the row does not
  // see the key.
  void soft_max(int r, SeenKeys seen) {
    float* row = state_.scores + r * kScoreStride;
    if (args_.shape.soft_cap > 0.0F) cap_scores<L>(row, seen.visible, args_.shape.soft_cap);
    OnlineSoftMax& state = state_.soft_max;
    state.take_max(r, chunk_max<L>(row, seen));
    const float max = state.new_max[r];
    state.added[r] = seen.all() ? weigh_all(row, max) : weigh_seen(row, max, seen);
    const auto* weights = reinterpret_cast<const std::byte*>(row);
    const Int8Group<Float32Format<L>, Q> group{weights, 0, kChunk};
    const IntegerScale scale = group.scale();
    std::uint32_t* out = state_.weights + r * kInt8OperandStride;
    state_.weight_offsets[r] = group.store(out, scale);
    state_.weight_scales[r] = scale.scale;
  }

  float weigh_all(float* row, float max) const {
    auto sum = L::zero();
#pragma GCC unroll 4
    for (int t = 0; t < kChunk; t += 16) {
      const auto p = exp16<L>(L::sub(L::load(row + t), L::set1(max)));
      sum = L::add(sum, p);
      L::store(row + t, L::mul(p, L::load(state_.value_scales + t)));
    }
    return L::sum(sum);
  }

  float weigh_seen(float* row, float max, SeenKeys seen) const {
    auto sum = L::zero();
    for (int t = 0; t < kChunk; t += 16) {
      auto weight = L::zero();
      if (t < seen.visible) {
        auto p = exp16<L>(L::sub(L::load(row + t), L::set1(max)));
        p = seen_lanes<L>(p, t, seen.behind, seen.visible);
        sum = L::add(sum, p);
        weight = seen_lanes<L>(L::mul(p, L::load(state_.value_scales + t)), t, seen.behind,
                               seen.visible);
      }
      L::store(row + t, weight);
    }
    return L::sum(sum);
  }

  void end_soft_max(int rows) {
    state_.soft_max.advance<L>(rows);
  }

  void add_values(int begin, int /*fewest*/, int most, int rows) {
    ValueRuns runs;
    for (int t = 0; t < most;) {
      const int in_block = args_.kv.block_tokens - (begin + t) % args_.kv.block_tokens;
      const int tokens = most - t < in_block ? most - t : in_block;
      runs.runs[runs.count++] = {reader_.values(begin + t, kGroup), (tokens + kGroup - 1) / kGroup,
                                 next_chunk_.values(begin + t, kGroup)};
      t += tokens;
    }
    const std::int64_t registers = args_.layout.value_stride / 16;
    for (std::int64_t column = 0; column < registers;) {
      const int width = registers_for<L>(rows, registers - column);
      kInt8AttentionTiles<Q>.value[width][rows]({.state = &state_,
                                                 .runs = &runs,
                                                 .column = column * 16,
                                                 .value_stride = args_.layout.value_stride});
      column += width;
    }
  }

  static typename L::V load_scales(const std::uint16_t* p) {
    return L::load_bf16_first(p, 16);
  }

  Int8AttentionState state_;
};

template <class F, class Q>
void int8_attention(const AttentionArgs& args, const AttentionArgs* next) {
  Int8AttentionTask<F, Q> task(args, next);
  task.run();
}

template <class L>
IntegerScale kv_scale_of(const float* values, int count) {
  Magnitude16<L> magnitude;
  for (int d = 0; d < count; d += 16) {
    magnitude.add(L::load_first(values + d, lanes_at(d, count)));
  }
  return int8_kv_scale(magnitude.largest(), magnitude.finite());
}

// Integers plus 128, filled up to whole registers with those of zeros.
template <class L>
void store_bytes(std::uint8_t* out, const float* values, int count, float inverse) {
  alignas(64) float scaled[16];
  for (int d = 0; d < count; d += 16) {
    L::store(scaled, L::mul(L::load_first(values + d, lanes_at(d, count)), L::set1(inverse)));
    for (int i = 0; i < 16; ++i) {
      // Rounds to the nearest integer, ties to even. What is not finite has a scale that says so;
      // the integer does not matter.
      const float shifted = scaled[i] + ExpConstants::kRound;
      out[d + i] = static_cast<std::uint8_t>(__builtin_bit_cast(std::uint32_t, shifted) + 128U);
    }
  }
}

// Keys and values as int8 plus 128, and their scales.
template <class L>
struct Int8KvStore {
  static void store(const KvToken& token, const float* key, const float* value) {
    std::uint8_t bytes[512];  // kMaxHeadDim
    auto* scales = reinterpret_cast<std::uint16_t*>(token.head + token.layout.scales_offset);

    const IntegerScale key_scale = kv_scale_of<L>(key, token.head_dim);
    store_bytes<L>(bytes, key, token.head_dim, key_scale.inverse);
    std::uint32_t* column = token.key_column();
    for (int d = 0; d < token.head_dim; d += 4, column += kPanelColumns) {
      __builtin_memcpy(column, bytes + d, sizeof(*column));
    }
    scales[token.slot] = high_half(key_scale.scale);

    const IntegerScale value_scale = kv_scale_of<L>(value, token.head_dim);
    store_bytes<L>(bytes, value, token.head_dim, value_scale.inverse);
    auto* out = reinterpret_cast<std::uint8_t*>(token.value_row(4)) + token.slot % 4;
    for (int d = 0; d < token.head_dim; ++d) out[std::int64_t{4} * d] = bytes[d];
    scales[token.block_tokens + token.slot] = high_half(value_scale.scale);
  }

 private:
  static std::uint16_t high_half(float scale) {
    return static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, scale) >> 16);
  }
};

// F: of inputs and outputs; Q8 and Q4: of int8 and int4 weights.
template <class F, class Q8, class Q4>
constexpr Int8Kernels make_int8_kernels() {
  return {.products = {.tile_rows = Q8::Lanes::kTileRows,
                       .dwords_per_step = Q8::kDwordsPerStep,
                       .pack = pack_int8<F, Q8, Quantization::kInt8>,
                       .gemm = integer_gemm<Q8>},
          .int4_products = {.tile_rows = Q4::Lanes::kTileRows,
                            .dwords_per_step = Q4::kDwordsPerStep,
                            .pack = pack_int8<F, Q8, Quantization::kInt4>,
                            .gemm = int4_gemm<Q4>},
          .attention = {.tile_rows = Q8::Lanes::kTileRows,
                        .rope_and_store = rope_and_store<F, Int8KvStore<typename F::Lanes>>,
                        .attend = int8_attention<F, Q8>}};
}

}  // namespace
}  // namespace headrace
