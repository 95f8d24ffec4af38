// Products of int8 weights and int8 inputs by tiles. A group of inputs is one dword row of a tile,
// so that a tile of integer sums is complete after one tile product; it goes through memory into
// float sums, scaled, which stay in registers over a slice: one a row, sixteen columns. Bound by
// that way, two instructions and two loads a row and group beside the tile product. See simd_math.h
// for the unnamed namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/amx_gemm.h"
#include "kernels/quantize.h"

namespace headrace {
namespace {

static_assert(kQuantizationGroup == 4 * kAmxDwords);

// Blocks of one size, panel after panel.
struct AmxInt8Blocks {
  const GemmArgs* gemm;
  const AmxBlockOrder* order;
  std::int64_t panel_begin;
  std::int64_t panel_end;
};

// A group on the way through the blocks of MR rows.
template <int MR>
class AmxInt8Cursor {
 public:
  explicit AmxInt8Cursor(const AmxInt8Blocks& blocks)
      : blocks_(blocks), g_(*blocks.gemm), panel_(blocks.panel_begin) {
    find_block();
  }

  bool ended() const { return panel_ == blocks_.panel_end; }
  bool begins_slice() const { return step_ == slice().begin; }
  bool ends_slice() const { return step_ + kAmxDwords >= slice().end; }
  bool ends_block() const { return ends_slice() && segment_ + 1 == g_.num_segments; }
  const Segment& slice() const { return g_.segments[segment_]; }
  AmxOutput output() const {
    return {.gemm = &g_, .first_row = first_row_, .rows = MR, .first_panel = panel_};
  }

  const std::uint32_t* rows() const { return rows_; }
  const float* row_scales() const { return row_scales_; }
  const std::uint32_t* weights() const { return weights_ + step_ * kPanelColumns; }
  std::int64_t steps_left() const { return slice().end - step_; }
  const float* column_scales() const {
    return g_.column_scales + segment_ * g_.column_stride + panel_ * kPanelColumns;
  }
  /// The lines of panels that are fetched meanwhile (AmxBlockOrder).
  void fetch(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i, next_lines_ += kPanelColumns) {
      __builtin_prefetch(next_lines_, 0, 2);
    }
  }

  void advance() {
    rows_ += MR * kAmxDwords;
    row_scales_ += g_.rows;
    const bool ends = ends_slice();
    step_ += kAmxDwords;
    if (!ends) return;
    if (++segment_ < g_.num_segments) {
      step_ = slice().begin;
    } else {
      ++block_;
      find_block();
    }
  }

 private:
  void find_block() {
    for (; panel_ < blocks_.panel_end; ++panel_, block_ = 0) {
      const std::int64_t count = blocks_.order->count();
      while (block_ < count && blocks_.order->size(block_) != MR) ++block_;
      if (block_ < count) break;
    }
    if (ended()) return;
    first_row_ = blocks_.order->begin(block_);
    rows_ = g_.packed + first_row_ * g_.row_dwords;
    row_scales_ = g_.row_scales + first_row_;
    weights_ = g_.weights + panel_ * g_.steps * kPanelColumns;
    next_lines_ = weights_ + blocks_.order->fetched_from(block_, g_.steps) * kPanelColumns;
    segment_ = 0;
    step_ = slice().begin;
  }

  const AmxInt8Blocks& blocks_;
  const GemmArgs& g_;
  std::int64_t panel_;
  std::int64_t block_ = 0;
  std::int64_t first_row_ = 0;
  int segment_ = 0;
  std::int64_t step_ = 0;
  const std::uint32_t* rows_ = nullptr;
  const std::uint32_t* next_lines_ = nullptr;
  const float* row_scales_ = nullptr;
  const std::uint32_t* weights_ = nullptr;
};

// Blocks of MR rows times panels, as one stream of groups. A group's tile is multiplied; stored
// when the products of two more are under way; and read from memory another one later: loads that
// find a store before them unfinished wait for it, even of other places with the same low bits of
// the address (36 ns a group instead of 9 without the sums, 17 with them). Tiles: 0 to 3 sums, 4
// and 5 rows, 6 and 7 panel.
template <class Tiles, int MR>
class AmxInt8Stream {
  using L = Avx512Lanes;
  using Sums = AmxSums<MR, 1>;

 public:
  AmxInt8Stream(Tiles& tiles, const AmxInt8Blocks& blocks, std::int64_t lines_each)
      : tiles_(tiles), lines_each_(lines_each), next_(blocks), summed_(blocks) {}

  static void run(Tiles& tiles, const AmxInt8Blocks& blocks, std::int64_t lines_each) {
    AmxInt8Stream(tiles, blocks, lines_each).run();
  }

  static void configure(Tiles& tiles) {
    AmxShapes shapes;
    for (int tile = 0; tile < 6; ++tile) shapes.set(tile, MR);
    shapes.set(6, kAmxDwords);
    shapes.set(7, kAmxDwords);
    tiles.configure(shapes);
  }

 private:
  void run() {
    L::V slice[MR];  // of the group at hand: not a member, so that it stays in registers
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) slice[m] = L::zero();
    summed_.output().fetch(1);
    while (!summed_.ended()) {
      turn<0>(slice);
      turn<1>(slice);
      turn<2>(slice);
      turn<3>(slice);
    }
  }

  // Multiplies a group, stores the one two before it and adds up the one three before it. Outside
  // of the stream there is nothing to do.
  template <int T>
  [[gnu::always_inline]] void turn(L::V (&slice)[MR]) {
    if (!next_.ended()) {
      multiply<T>();
      next_.advance();
    }
    tiles_.template store<(T + 2) % 4>(stored_[(T + 2) % 4]);
    if (turns_ >= 3 && !summed_.ended()) add(slice, stored_[(T + 1) % 4]);
    ++turns_;
  }

  template <int T>
  [[gnu::always_inline]] void multiply() {
    next_.fetch(lines_each_);
    tiles_.template zero<T>();
    tiles_.template load_passing<4 + T % 2>(next_.rows());
    // Rows that are missing to a whole group are zeros; behind the panel's end there is nothing.
    if (next_.steps_left() >= kAmxDwords) {
      tiles_.template load<6 + T % 2>(next_.weights());
    } else {
      alignas(64) std::uint32_t last[kAmxDwords * kPanelColumns] = {};
      __builtin_memcpy(last, next_.weights(),
                       static_cast<std::size_t>(next_.steps_left() * kPanelColumns) * 4);
      tiles_.template load<6 + T % 2>(last);
    }
    tiles_.template add_int8<T, 4 + T % 2, 6 + T % 2>();
  }

  // The sums of a group to those of its slice. That the first product is not added to zero changes
  // no bit (SliceSums).
  [[gnu::always_inline]] void add(L::V (&slice)[MR], const std::int32_t* integers) {
    const float* const scales = summed_.row_scales();
    if (summed_.begins_slice()) {
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        slice[m] = L::mul(as_float(integers + m * kPanelColumns), L::set1(scales[m]));
      }
    } else {
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        slice[m] = L::fma(as_float(integers + m * kPanelColumns), L::set1(scales[m]), slice[m]);
      }
    }
    if (summed_.ends_slice()) end_slice(slice);
    const bool ends_block = summed_.ends_block();
    summed_.advance();
    if (!ends_block) return;
    sums_.clear();
    if (!summed_.ended()) summed_.output().fetch(1);
  }

  [[gnu::always_inline]] void end_slice(const L::V (&slice)[MR]) {
    const L::V columns = L::load(summed_.column_scales());
    alignas(64) float finished[MR * kPanelColumns];
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) L::store(finished + m * kPanelColumns, L::mul(slice[m], columns));
    sums_.end_slice(summed_.output(), finished, summed_.slice().merges, summed_.ends_block());
  }

  static L::V as_float(const std::int32_t* integers) {
    return _mm512_cvtepi32_ps(_mm512_load_si512(integers));
  }

  Tiles& tiles_;
  std::int64_t lines_each_;
  AmxInt8Cursor<MR> next_;
  AmxInt8Cursor<MR> summed_;
  int turns_ = 0;
  Sums sums_;
  alignas(64) std::int32_t stored_[4][kAmxRows * kPanelColumns];
};

template <class Tiles>
class AmxInt8Gemm {
  using Run = void (*)(Tiles&, const AmxInt8Blocks&, std::int64_t);
  using Configure = void (*)(Tiles&);

 public:
  explicit AmxInt8Gemm(const GemmArgs& g)
      : g_(g), order_(g.rows, num_row_blocks(g.rows, kAmxRows)) {}

  void run() {
    const std::int64_t num_blocks = order_.count();
    const int small = static_cast<int>(g_.rows / num_blocks);
    AmxInt8Blocks blocks{
        .gemm = &g_, .order = &order_, .panel_begin = g_.panel_begin, .panel_end = g_.panel_end};
    if (g_.rows % num_blocks == 0) {
      run_size(blocks, small);
      return;
    }
    for (std::int64_t panel = g_.panel_begin; panel < g_.panel_end; ++panel) {
      blocks.panel_begin = panel;
      blocks.panel_end = panel + 1;
      const int first = panel % 2 == 0 ? small : small + 1;
      run_size(blocks, first);
      run_size(blocks, 2 * small + 1 - first);
    }
  }

 private:
  void run_size(const AmxInt8Blocks& blocks, int rows) {
    if (rows != shape_) kStreams.configure[rows](tiles_);
    shape_ = rows;
    kStreams.run[rows](tiles_, blocks, order_.fetched_each(kAmxDwords));
  }

  // By rows, [1, kAmxRows].
  struct Streams {
    Run run[kAmxRows + 1] = {};
    Configure configure[kAmxRows + 1] = {};

    constexpr Streams() { fill<1>(); }

   private:
    template <int MR>
    constexpr void fill() {
      run[MR] = AmxInt8Stream<Tiles, MR>::run;
      configure[MR] = AmxInt8Stream<Tiles, MR>::configure;
      if constexpr (MR < kAmxRows) fill<MR + 1>();
    }
  };
  static constexpr Streams kStreams{};

  Tiles tiles_;
  const GemmArgs& g_;
  AmxBlockOrder order_;
  int shape_ = 0;
};

template <class Tiles>
void amx_int8_gemm(const GemmArgs& g) {
  AmxInt8Gemm<Tiles>(g).run();
}

}  // namespace
}  // namespace headrace
