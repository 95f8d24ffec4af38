// Products with int8 weights. Rows are quantised when they are packed, slice by slice; a tile sums
// a slice's integers exactly, in any order, makes the sums float32 and scales them, and from there
// on walks the tree as the tiles of other types do. Bound by the integer dot products from about 8
// rows on, by reading the weights below. See simd_math.h for the unnamed namespace.
//
// A format says how an instruction set takes one dword step, four int8 of sixteen columns:
//   Lanes               the float lanes of the instruction set
//   I                   sixteen int32 sums
//   kDwordsPerStep      dwords of a packed row that a step reads
//   kOffsetInputs       packed inputs are the integers plus 128, for which sums start at
//                       GemmArgs::column_offsets
//   step(), load(), zero(), to_float(), store_inputs()
#pragma once

#include <cstdint>

#include "kernels/cpu/simd_gemm.h"
#include "kernels/quantize.h"

namespace headrace {
namespace {

// Integers of MR rows and NV panels.
template <class Q, int MR, int NV>
struct IntegerSums {
  typename Q::I at[MR][NV];
};

template <class Q, int MR, int NV>
[[gnu::always_inline]] inline void start_sums(IntegerSums<Q, MR, NV>& sums, const GemmTile& tile,
                                              int slice) {
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    auto start = Q::zero();
    if constexpr (Q::kOffsetInputs) {
      start = Q::load(tile.gemm->column_offsets + slice * tile.gemm->column_stride +
                      (tile.first_panel + v) * kPanelColumns);
    }
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) sums.at[m][v] = start;
  }
}

template <class Q, int MR, int NV>
[[gnu::always_inline]] inline void scale_sums(Accumulators<typename Q::Lanes, MR, NV>& acc,
                                              const IntegerSums<Q, MR, NV>& sums,
                                              const GemmTile& tile, int slice) {
  using L = typename Q::Lanes;
  const float* columns = tile.gemm->column_scales + slice * tile.gemm->column_stride +
                         tile.first_panel * kPanelColumns;
  const float* rows = tile.gemm->row_scales + slice * tile.gemm->rows + tile.first_row;
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    const auto column_scales = L::load(columns + v * kPanelColumns);
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const auto scaled = L::mul(Q::to_float(sums.at[m][v]), L::set1(rows[m]));
      acc.at[m][v] = L::mul(scaled, column_scales);
    }
  }
}

template <class Q, int MR, int NV, Prefetch P>
struct Int8Tile {
  static void run(const GemmTile& tile) {
    const GemmArgs& g = *tile.gemm;
    const PanelPointers<NV> panels(tile);
    Accumulators<typename Q::Lanes, MR, NV> acc;
    TileStack<typename Q::Lanes, MR, NV> stack;
    for (int s = 0; s < g.num_segments; ++s) {
      IntegerSums<Q, MR, NV> sums;
      start_sums(sums, tile, s);
      add_segment<Q, MR, NV, P>(sums, tile, panels.at, g.segments[s]);
      scale_sums(acc, sums, tile, s);
      stack.merge(acc, g.segments[s].merges);
      if (s + 1 < g.num_segments) stack.push(acc);
    }
    finish_values(stack, acc, tile);
  }
};

template <class Q>
void int8_gemm(const GemmArgs& g) {
  gemm<Q, Int8Tile>(g);
}

// Rows of inputs in format F.
template <class F, class Q>
void pack_int8(const PackArgs& args) {
  using L = typename F::Lanes;
  const auto read = [&args](int r, const Segment& segment, int i) {
    const std::int64_t row = (args.first_row + r) * args.k + segment.first_element;
    return F::load_elements(args.x, row + i, lanes_at(i, segment.num_elements));
  };
  for (int s = 0; s < args.num_segments; ++s) {
    const Segment& segment = args.segments[s];
    for (int r = 0; r < args.num_rows; ++r) {
      auto largest = L::zero();
      auto probe = L::zero();  // of zeros, unless something is not finite
      for (int i = 0; i < segment.num_elements; i += 16) {
        const auto x = read(r, segment, i);
        largest = L::max(largest, L::max(x, L::negate(x)));
        probe = L::fma(x, L::zero(), probe);
      }
      const Int8Scale scale = int8_scale(L::max_lane(largest), L::sum(probe) == 0.0F);
      args.row_scales[s * args.scale_stride + r] = scale.scale;
      for (int i = 0; i < segment.num_elements; i += 16) {
        const std::int64_t dword = (std::int64_t{segment.begin} + i / 4) * Q::kDwordsPerStep;
        const std::int64_t run = dword / kRunDwords;
        Q::store_inputs(args.packed + (run * args.num_rows + r) * kRunDwords + dword % kRunDwords,
                        L::mul(read(r, segment, i), L::set1(scale.inverse)));
      }
    }
  }
}

template <class F, class Q>
constexpr ProductKernels make_int8_kernels() {
  return {.tile_rows = Q::Lanes::kTileRows,
          .dwords_per_step = Q::kDwordsPerStep,
          .pack = pack_int8<F, Q>,
          .gemm = int8_gemm<Q>};
}

}  // namespace
}  // namespace headrace
