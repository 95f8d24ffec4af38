// Matrix product of packed rows and packed panels. Bound by multiply-adds from about 8 rows on, by
// reading the weights below. A tile of MR rows and NV panels holds its sums in registers over a
// whole reduction slice; finished slices wait on a small stack of tiles until the tree adds them,
// so an output element is a function of its row and column alone. See simd_math.h for the unnamed
// namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd_format.h"

namespace headrace {
namespace {

// A single row block reads its weights once, from far away: it fetches its own panels this many
// steps (of 64 bytes a panel) ahead. Several row blocks fetch the next panels, each
// an equal part: two blocks that fetched all of it had int8 products of 208 rows take 5 to 8 %
// longer, on one core of an Intel CPU with two 512-bit dot products a cycle.
inline constexpr std::int64_t kPrefetchSteps = 32;
enum class Prefetch { kOwnPanels, kNextPanels };

struct GemmTile {
  const GemmArgs* gemm;
  const std::uint32_t* rows;  // packed block
  std::int64_t first_row;
  std::int64_t first_panel;
  // kNextPanels: what to fetch from here on, so many dwords further a step.
  const std::uint32_t* next_lines;
  std::int64_t next_stride;
};

// The panels of a tile.
template <int NV>
struct PanelPointers {
  explicit PanelPointers(const GemmTile& tile) {
    for (int v = 0; v < NV; ++v) {
      at[v] = tile.gemm->weights + (tile.first_panel + v) * tile.gemm->steps * kPanelColumns;
    }
  }

  const std::uint32_t* at[NV];
};

// Where a single row block fetches ahead, in dwords from `step` of its own panels. The last steps
// of a panel look into the panel NV further on: the one this loop reads next.
template <int NV>
[[gnu::always_inline]] inline std::int64_t prefetch_distance(const GemmTile& tile,
                                                             std::int64_t step) {
  const std::int64_t steps = tile.gemm->steps;
  const bool within = step + kPrefetchSteps < steps;
  return (kPrefetchSteps + (within ? 0 : (NV - 1) * steps)) * kPanelColumns;
}

// Lines of packed rows that a step fetches into the L1 cache, so that those of the next run are
// there when the steps of a run have passed. The rows of several blocks do not fit there beside the
// panels, and a run's first step needs a line of every row at once.
template <int Lines, int Steps>
inline constexpr int kRowLinesPerStep = (Lines + Steps - 1) / Steps;

template <int Lines>
[[gnu::always_inline]] inline void fetch_rows(const std::uint32_t* rows) {
#pragma GCC unroll 16
  for (int line = 0; line < Lines; ++line) __builtin_prefetch(rows + line * kRunDwords, 0, 3);
}

// Sums is what format F's step() adds to, for MR rows and NV panels.
template <class F, int MR, int NV, Prefetch P, class Sums>
[[gnu::always_inline]] inline void add_steps(Sums& acc, const GemmTile& tile,
                                             const std::uint32_t* const (&w)[NV],
                                             const Segment& steps, std::int64_t prefetch_ahead) {
  using Rows = PackedRows<F>;
  constexpr std::int64_t kRunSteps = kRunDwords / F::kDwordsPerStep;
  for (std::int64_t step = steps.begin; step < steps.end;) {
    const std::int64_t run = step / kRunSteps;
    const std::uint32_t* a = tile.rows + run * MR * kRunDwords + step % kRunSteps * Rows::kStep;
    constexpr int kLines = kRowLinesPerStep<MR, kRunSteps>;
    const std::uint32_t* next_rows = tile.rows + (run + 1) * MR * kRunDwords;
    const std::int64_t run_end =
        (run + 1) * kRunSteps < steps.end ? (run + 1) * kRunSteps : steps.end;
    for (; step < run_end; ++step, a += Rows::kStep, next_rows += kLines * kRunDwords) {
      fetch_rows<kLines>(next_rows);
      const std::int64_t at = step * kPanelColumns;
      if constexpr (P == Prefetch::kNextPanels) {
        __builtin_prefetch(tile.next_lines + step * tile.next_stride, 0, 2);
      } else {
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) __builtin_prefetch(w[v] + at + prefetch_ahead, 0, 2);
      }
      F::template step<Rows>(acc, a, w, at);
    }
  }
}

template <class F, int MR, int NV, Prefetch P, class Sums>
[[gnu::always_inline]] inline void add_segment(Sums& acc, const GemmTile& tile,
                                               const std::uint32_t* const (&w)[NV],
                                               const Segment& segment) {
  if constexpr (P == Prefetch::kNextPanels) {
    add_steps<F, MR, NV, P>(acc, tile, w, segment, 0);
    return;
  }
  std::int64_t turn = tile.gemm->steps - kPrefetchSteps;
  if (turn < segment.begin) turn = segment.begin;
  if (turn > segment.end) turn = segment.end;
  const auto middle = static_cast<std::int32_t>(turn);
  add_steps<F, MR, NV, P>(acc, tile, w, {.begin = segment.begin, .end = middle},
                          prefetch_distance<NV>(tile, segment.begin));
  add_steps<F, MR, NV, P>(acc, tile, w, {.begin = middle, .end = segment.end},
                          prefetch_distance<NV>(tile, middle));
}

template <class L, int MR, int NV>
[[gnu::always_inline]] inline void finish(const Accumulators<L, MR, NV>& acc, const GemmTile& tile,
                                          int value_index) {
  const GemmArgs& g = *tile.gemm;
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    const std::int64_t column = (tile.first_panel + v) * kPanelColumns;
    const std::int64_t left = g.n - column;
    const int n = left < kPanelColumns ? static_cast<int>(left) : kPanelColumns;
    float* out = g.out + value_index * g.value_stride + tile.first_row * g.out_stride + column -
                 g.first_column;
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m, out += g.out_stride) {
      auto value = acc.at[m][v];
      if (g.bias != nullptr) value = L::add(value, L::load_first(g.bias + column, n));
      if (g.epilogue == Epilogue::kAddTo) value = L::add(L::load_first(out, n), value);
      if (n == kPanelColumns) {
        L::store(out, value);
      } else {
        L::store_first(out, value, n);
      }
    }
  }
}

// Finished slices that wait for others.
template <class L, int MR, int NV>
struct TileStack {
  Accumulators<L, MR, NV> tiles[kMaxTreeDepth];
  int depth = 0;

  [[gnu::always_inline]] void push(const Accumulators<L, MR, NV>& acc) { tiles[depth++] = acc; }
  // acc = the last one + acc, so many times.
  [[gnu::always_inline]] void merge(Accumulators<L, MR, NV>& acc, int merges) {
    for (int merge = 0; merge < merges; ++merge) {
      --depth;
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) {
          acc.at[m][v] = L::add(tiles[depth].at[m][v], acc.at[m][v]);
        }
      }
    }
  }
};

template <class L, int MR, int NV>
[[gnu::always_inline]] inline void finish_values(const TileStack<L, MR, NV>& stack,
                                                 const Accumulators<L, MR, NV>& last,
                                                 const GemmTile& tile) {
  for (int value = 0; value < stack.depth; ++value) finish(stack.tiles[value], tile, value);
  finish(last, tile, stack.depth);
}

template <class F, int MR, int NV, Prefetch P>
struct FloatTile {
  static void run(const GemmTile& tile) {
    const GemmArgs& g = *tile.gemm;
    const PanelPointers<NV> panels(tile);
    Accumulators<typename F::Lanes, MR, NV> acc;
    TileStack<typename F::Lanes, MR, NV> stack;
    for (int s = 0; s < g.num_segments; ++s) {
      acc.clear();
      add_segment<F, MR, NV, P>(acc, tile, panels.at, g.segments[s]);
      stack.merge(acc, g.segments[s].merges);
      if (s + 1 < g.num_segments) stack.push(acc);
    }
    finish_values(stack, acc, tile);
  }
};

// Panels a tile of that many rows takes side by side, as registers allow: few rows need more
// columns to have enough independent chains in flight.
template <class L>
constexpr int panels_for(std::int64_t rows) {
  return rows <= L::tile_rows(4) ? 4 : rows <= L::tile_rows(2) ? 2 : 1;
}

// Tile functions by number of rows, [1, kTileRows]; null for more than L::tile_rows. Tile is
// FloatTile or its like: what a format's tiles do.
using TileFunction = void (*)(const GemmTile&);
template <class F, template <class, int, int, Prefetch> class Tile, int NV, Prefetch P>
struct GemmTiles {
  TileFunction by_rows[F::Lanes::kTileRows + 1];

  constexpr GemmTiles() : by_rows{} { fill<1>(); }

 private:
  template <int MR>
  constexpr void fill() {
    using L = typename F::Lanes;
    if constexpr (MR <= L::kTileRows) {
      if constexpr (MR <= L::tile_rows(NV)) by_rows[MR] = Tile<F, MR, NV, P>::run;
      fill<MR + 1>();
    }
  }
};

template <class F, template <class, int, int, Prefetch> class Tile, int NV, Prefetch P>
inline constexpr GemmTiles<F, Tile, NV, P> kGemmTiles{};

// All row blocks over NV panels.
template <class F, template <class, int, int, Prefetch> class Tile, int NV, Prefetch P>
void gemm_panels(const GemmArgs& g, std::int64_t panel, std::int64_t num_blocks) {
  const std::uint32_t* const own = g.weights + panel * g.steps * kPanelColumns;
  const std::uint32_t* const next = own + NV * g.steps * kPanelColumns;
  const std::int64_t stride = (NV * kPanelColumns + num_blocks - 1) / num_blocks;
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    const std::int64_t begin = b * g.rows / num_blocks;
    const std::int64_t end = (b + 1) * g.rows / num_blocks;
    const GemmTile tile{
        .gemm = &g,
        .rows = g.packed + begin * g.row_dwords,
        .first_row = begin,
        .first_panel = panel,
        .next_lines = next + b * g.steps * stride,
        .next_stride = stride,
    };
    kGemmTiles<F, Tile, NV, P>.by_rows[end - begin](tile);
  }
}

template <class F, template <class, int, int, Prefetch> class Tile, int NV>
void gemm_panels(const GemmArgs& g, std::int64_t panel, std::int64_t num_blocks) {
  if (num_blocks == 1) {
    gemm_panels<F, Tile, NV, Prefetch::kOwnPanels>(g, panel, num_blocks);
  } else {
    gemm_panels<F, Tile, NV, Prefetch::kNextPanels>(g, panel, num_blocks);
  }
}

template <class F, template <class, int, int, Prefetch> class Tile>
void gemm(const GemmArgs& g) {
  using L = typename F::Lanes;
  const std::int64_t num_blocks = num_row_blocks(g.rows, L::kTileRows);
  const int width = panels_for<L>((g.rows + num_blocks - 1) / num_blocks);
  for (std::int64_t panel = g.panel_begin; panel < g.panel_end;) {
    const std::int64_t left = g.panel_end - panel;
    if (width >= 4 && left >= 4) {
      gemm_panels<F, Tile, 4>(g, panel, num_blocks);
      panel += 4;
    } else if (width >= 2 && left >= 2) {
      gemm_panels<F, Tile, 2>(g, panel, num_blocks);
      panel += 2;
    } else {
      gemm_panels<F, Tile, 1>(g, panel, num_blocks);
      panel += 1;
    }
  }
}

template <class F>
void float_gemm(const GemmArgs& g) {
  gemm<F, FloatTile>(g);
}

template <class F>
void pack(const PackArgs& args) {
  constexpr int kRunElements = kRunDwords / F::kDwordsPerStep * F::kGroup;
  std::uint32_t* out = args.packed;
  for (std::int64_t begin = 0; begin < args.k; begin += kRunElements) {
    for (int r = 0; r < args.num_rows; ++r, out += kRunDwords) {
      const std::int64_t row = (args.first_row + r) * args.k;
      for (int i = 0; i < kRunElements; i += 16) {
        const std::int64_t left = args.k - begin - i;
        const int n = left > 16 ? 16 : left < 0 ? 0 : static_cast<int>(left);
        F::store_operands(out, i, F::load_elements(args.x, row + begin + i, n));
      }
    }
  }
}

}  // namespace
}  // namespace headrace
