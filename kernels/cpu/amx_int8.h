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

// MR rows times one panel. Tiles: 0 sums, 4 rows, 6 panel.
template <class Tiles, int MR>
class AmxInt8Block {
  using L = Avx512Lanes;
  using Sums = AmxSums<MR, 1>;

 public:
  static void configure(Tiles& tiles) {
    AmxShapes shapes;
    shapes.set(0, MR);
    shapes.set(1, MR);
    shapes.set(4, MR);
    shapes.set(5, MR);
    shapes.set(6, kAmxDwords);
    shapes.set(7, kAmxDwords);
    tiles.configure(shapes);
  }

  // What a block reads, group by group.
  struct Groups {
    const std::uint32_t* rows;
    const float* row_scales;
    std::int64_t scale_stride;
  };

  static void run(Tiles& tiles, const AmxOutput& out, const std::uint32_t* next_lines,
                  int lines_each) {
    const GemmArgs& g = *out.gemm;
    const std::uint32_t* const panel = g.weights + out.first_panel * g.steps * kPanelColumns;
    const float* column_scales = g.column_scales + out.first_panel * kPanelColumns;
    const std::uint32_t* rows = g.packed + out.first_row * g.row_dwords;
    const float* row_scales = g.row_scales + out.first_row;
    Sums sums;
    alignas(64) std::int32_t ring[kRing][MR][kPanelColumns];
    // The group whose tile product is next, and the one whose sums are.
    int made = 0;
    int made_segment = 0;
    std::int64_t made_step = g.segments[0].begin;
    const auto make = [&] {
      if (made_segment == g.num_segments) return;
      for (int i = 0; i < lines_each; ++i, next_lines += kPanelColumns) {
        __builtin_prefetch(next_lines, 0, 2);
      }
      const std::int64_t end = g.segments[made_segment].end;
      multiply(tiles, rows, panel + made_step * kPanelColumns, end - made_step,
               ring[made++ % kRing][0]);
      rows += MR * kAmxDwords;
      made_step += kAmxDwords;
      if (made_step < end) return;
      if (++made_segment < g.num_segments) made_step = g.segments[made_segment].begin;
    };
    for (int i = 0; i < kRing - 1; ++i) make();
    int taken = 0;
    for (int s = 0; s < g.num_segments; ++s) {
      const Segment& slice = g.segments[s];
      L::V acc[MR];
      for (std::int64_t step = slice.begin; step < slice.end; step += kAmxDwords) {
        make();
        const auto& integers = ring[taken++ % kRing];
        if (step == slice.begin) {
#pragma GCC unroll 16
          for (int m = 0; m < MR; ++m) {
            acc[m] = L::mul(as_float(integers[m]), L::set1(row_scales[m]));
          }
        } else {
#pragma GCC unroll 16
          for (int m = 0; m < MR; ++m) {
            acc[m] = L::fma(as_float(integers[m]), L::set1(row_scales[m]), acc[m]);
          }
        }
        row_scales += g.rows;
      }
      const L::V scales = L::load(column_scales);
      float* const finished = sums.slice();
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        L::store(finished + m * Sums::kStride, L::mul(acc[m], scales));
      }
      column_scales += g.column_stride;
      sums.end_slice(out, slice.merges, s + 1 == g.num_segments);
    }
  }

 private:
  // Tiles of integers on their way through memory.
  static constexpr int kRing = 4;

  static L::V as_float(const std::int32_t* integers) {
    return _mm512_cvtepi32_ps(_mm512_load_si512(integers));
  }

  // Rows that are missing to a whole group are zeros, but the panel's next steps are not.
  static void multiply(Tiles& tiles, const std::uint32_t* rows, const std::uint32_t* panel,
                       std::int64_t steps_left, std::int32_t* to) {
    tiles.template zero<0>();
    tiles.template load<4>(rows);
    if (steps_left >= kAmxDwords) {
      tiles.template load<6>(panel);
    } else {
      alignas(64) std::uint32_t last[kAmxDwords * kPanelColumns] = {};
      __builtin_memcpy(last, panel, static_cast<std::size_t>(steps_left * kPanelColumns) * 4);
      tiles.template load<6>(last);
    }
    tiles.template add_int8<0, 4, 6>();
    tiles.template store<0>(to);
  }
};

template <class Tiles>
class AmxInt8Gemm {
  using RunBlock = void (*)(Tiles&, const AmxOutput&, const std::uint32_t*, int);
  using Configure = void (*)(Tiles&);

 public:
  explicit AmxInt8Gemm(const GemmArgs& g)
      : g_(g), order_(g.rows, num_row_blocks(g.rows, kAmxRows)) {}

  void run() {
    const std::int64_t num_blocks = num_row_blocks(g_.rows, kAmxRows);
    const int lines_each = static_cast<int>((kAmxDwords + num_blocks - 1) / num_blocks);
    for (std::int64_t panel = g_.panel_begin; panel < g_.panel_end; ++panel) {
      const std::uint32_t* const own = g_.weights + panel * g_.steps * kPanelColumns;
      order_.each(panel % 2 == 0, [&](std::int64_t b) {
        const AmxOutput out{.gemm = &g_,
                            .first_row = order_.begin(b),
                            .rows = order_.size(b),
                            .first_panel = panel};
        const std::int64_t ahead =
            num_blocks == 1 ? kAmxFetchLines : g_.steps + b * g_.steps / num_blocks;
        if (out.rows != shape_) kBlocks.configure[out.rows](tiles_);
        shape_ = out.rows;
        kBlocks.run[out.rows](tiles_, out, own + ahead * kPanelColumns, lines_each);
      });
    }
  }

 private:
  // By rows, [1, kAmxRows].
  struct Blocks {
    RunBlock run[kAmxRows + 1] = {};
    Configure configure[kAmxRows + 1] = {};

    constexpr Blocks() { fill<1>(); }

   private:
    template <int MR>
    constexpr void fill() {
      run[MR] = AmxInt8Block<Tiles, MR>::run;
      configure[MR] = AmxInt8Block<Tiles, MR>::configure;
      if constexpr (MR < kAmxRows) fill<MR + 1>();
    }
  };
  static constexpr Blocks kBlocks{};

  const GemmArgs& g_;
  AmxBlockOrder order_;
  Tiles tiles_;
  int shape_ = 0;
};

template <class Tiles>
void amx_int8_gemm(const GemmArgs& g) {
  AmxInt8Gemm<Tiles>(g).run();
}

}  // namespace
}  // namespace headrace
