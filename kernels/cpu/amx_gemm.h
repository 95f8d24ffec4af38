// Products of bfloat16 by tiles: a block of up to 32 rows times two panels is four tiles of sums,
// each loaded tile enters two products, and packed rows and panels are tiles as they lie in memory.
// Bound by the tile products from about 16 rows on where slices are long; of slices of 64 elements
// a tile of sums goes to memory after every second product. See simd_math.h for the unnamed
// namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/amx_sums.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/kernel_table.h"

namespace headrace {
namespace {

// Rows of a block: two tiles.
inline constexpr int kAmxBlockRows = 2 * kAmxRows;

// Lines ahead of the panel at hand that a single block fetches.
inline constexpr std::int64_t kAmxFetchLines = 64;

// Dword steps of a slice that do not fill a tile, or do not lie where one begins: what is missing
// is zero.
struct alignas(64) RaggedStep {
  std::uint32_t rows[kAmxBlockRows][kAmxDwords];
  std::uint32_t panels[2][kAmxDwords * kPanelColumns];

  // Steps [begin, end), at most 16, of a packed block of num_rows rows.
  void copy_rows(const std::uint32_t* packed, int num_rows, std::int64_t begin, std::int64_t end) {
    for (int r = 0; r < num_rows; ++r) {
      for (std::int64_t i = 0; i < kAmxDwords; ++i) {
        const std::int64_t step = begin + i;
        const std::int64_t run = step / kPackedRunDwords * num_rows + r;
        rows[r][i] =
            step < end ? packed[run * kPackedRunDwords + step % kPackedRunDwords] : 0;
      }
    }
  }
  void copy_panel(int panel, const std::uint32_t* from, std::int64_t steps) {
    for (std::int64_t i = 0; i < kAmxDwords * kPanelColumns; ++i) {
      panels[panel][i] = i < steps * kPanelColumns ? from[i] : 0;
    }
  }
};

// A block of rows times NV panels, RT tiles of rows. Tiles: 0 to 3 sums, 4 and 5 rows, 6 and 7
// panels.
template <class Tiles, int RT, int NV>
class AmxBlock {
  static constexpr int kRows = RT * kAmxRows;
  using Sums = AmxSums<kRows, NV>;

 public:
  AmxBlock(Tiles& tiles, const AmxOutput& out) : tiles_(tiles), out_(out), g_(*out.gemm) {
    rows_ = g_.packed + out.first_row * g_.row_dwords;
    for (int v = 0; v < NV; ++v) {
      panels_[v] = g_.weights + (out.first_panel + v) * g_.steps * kPanelColumns;
    }
  }

  static void configure(Tiles& tiles, int rows) {
    AmxShapes shapes;
    const int first = rows < kAmxRows ? rows : kAmxRows;
    for (int t = 0; t < RT; ++t) {
      const int own = t == 0 ? first : rows - first;
      shapes.set(4 + t, own);
      for (int v = 0; v < NV; ++v) shapes.set(2 * t + v, own);
    }
    for (int v = 0; v < NV; ++v) shapes.set(6 + v, kAmxDwords);
    tiles.configure(shapes);
  }

  /// next_lines: what to fetch meanwhile, so many lines a step.
  void run(const std::uint32_t* next_lines, int lines_each) {
    next_lines_ = next_lines;
    lines_each_ = lines_each;
    Sums sums;
    for (int s = 0; s < g_.num_segments; ++s) {
      const Segment& segment = g_.segments[s];
      zero();
      for (std::int64_t step = segment.begin; step < segment.end; step += kAmxDwords) {
        add_step(step, segment.end);
      }
      const bool last = s + 1 == g_.num_segments;
      if (s == 0 && last && out_.plain(NV)) {
        store(out_.at(0, 0), g_.out_stride);
        return;
      }
      store(sums.slice(), Sums::kStride);
      sums.end_slice(out_, segment.merges, last);
    }
  }

 private:
  void zero() {
    tiles_.template zero<0>();
    if constexpr (NV > 1) tiles_.template zero<1>();
    if constexpr (RT > 1) tiles_.template zero<2>();
    if constexpr (RT > 1 && NV > 1) tiles_.template zero<3>();
  }

  void store(float* to, std::int64_t stride) {
    tiles_.template store<0>(to, stride);
    if constexpr (NV > 1) tiles_.template store<1>(to + kPanelColumns, stride);
    to += kAmxRows * stride;
    if constexpr (RT > 1) tiles_.template store<2>(to, stride);
    if constexpr (RT > 1 && NV > 1) tiles_.template store<3>(to + kPanelColumns, stride);
  }

  void add_step(std::int64_t step, std::int64_t end) {
    for (int i = 0; i < lines_each_; ++i) {
      __builtin_prefetch(next_lines_, 0, 2);
      next_lines_ += kPanelColumns;
    }
    if (step % kPackedRunDwords == 0 && step + kAmxDwords <= end) {
      const std::uint32_t* const run = rows_ + step * out_.rows;
      const std::int64_t at = step * kPanelColumns;
      multiply(run, panels_[0] + at, panels_[NV - 1] + at);
      return;
    }
    RaggedStep ragged;
    const std::int64_t steps = end - step < kAmxDwords ? end - step : kAmxDwords;
    ragged.copy_rows(rows_, out_.rows, step, step + steps);
    for (int v = 0; v < NV; ++v) {
      ragged.copy_panel(v, panels_[v] + step * kPanelColumns, steps);
    }
    multiply(ragged.rows[0], ragged.panels[0], ragged.panels[NV - 1]);
  }

  void multiply(const std::uint32_t* rows, const std::uint32_t* panel0,
                const std::uint32_t* panel1) {
    tiles_.template load<6>(panel0);
    tiles_.template load<4>(rows);
    tiles_.template add_bf16<0, 4, 6>();
    if constexpr (NV > 1) {
      tiles_.template load<7>(panel1);
      tiles_.template add_bf16<1, 4, 7>();
    }
    if constexpr (RT > 1) {
      tiles_.template load<5>(rows + kAmxRows * kAmxDwords);
      tiles_.template add_bf16<2, 5, 6>();
      if constexpr (NV > 1) tiles_.template add_bf16<3, 5, 7>();
    }
  }

  Tiles& tiles_;
  const AmxOutput& out_;
  const GemmArgs& g_;
  const std::uint32_t* rows_;
  const std::uint32_t* panels_[NV];
  const std::uint32_t* next_lines_ = nullptr;
  int lines_each_ = 0;
};

// Blocks differ by at most one row. Those of one size come one after the other, in turns the small
// and the large ones first, so that tiles change their shape once for every group of panels.
class AmxBlockOrder {
 public:
  AmxBlockOrder(std::int64_t rows, std::int64_t blocks) : rows_(rows), blocks_(blocks) {}

  std::int64_t begin(std::int64_t block) const { return block * rows_ / blocks_; }
  int size(std::int64_t block) const { return static_cast<int>(begin(block + 1) - begin(block)); }

  /// visit(block) for all.
  template <class Visit>
  void each(bool small_first, const Visit& visit) const {
    const int small = static_cast<int>(rows_ / blocks_);
    const bool differ = rows_ % blocks_ != 0;
    for (int pass = 0; pass < (differ ? 2 : 1); ++pass) {
      const int wanted = (pass == 0) == small_first || !differ ? small : small + 1;
      for (std::int64_t b = 0; b < blocks_; ++b) {
        if (size(b) == wanted) visit(b);
      }
    }
  }

 private:
  std::int64_t rows_;
  std::int64_t blocks_;
};

template <class Tiles>
class AmxGemm {
 public:
  explicit AmxGemm(const GemmArgs& g)
      : g_(g), order_(g.rows, num_row_blocks(g.rows, kAmxBlockRows)) {}

  void run() {
    std::int64_t panel = g_.panel_begin;
    for (; panel + 2 <= g_.panel_end; panel += 2) over_blocks<2>(panel);
    if (panel < g_.panel_end) over_blocks<1>(panel);
  }

 private:
  template <int NV>
  void over_blocks(std::int64_t panel) {
    const std::int64_t num_blocks = num_row_blocks(g_.rows, kAmxBlockRows);
    const std::int64_t panel_lines = NV * g_.steps;
    // Each block fetches its part of the next panels; a single one fetches its own, ahead.
    const int lines_each =
        static_cast<int>((NV * kAmxDwords + num_blocks - 1) / num_blocks);
    const std::uint32_t* const own = g_.weights + panel * g_.steps * kPanelColumns;
    order_.each(panel / 2 % 2 == 0, [&](std::int64_t b) {
      const AmxOutput out{.gemm = &g_,
                          .first_row = order_.begin(b),
                          .rows = order_.size(b),
                          .first_panel = panel};
      const std::int64_t ahead =
          num_blocks == 1 ? kAmxFetchLines : panel_lines + b * panel_lines / num_blocks;
      const std::uint32_t* const next = own + ahead * kPanelColumns;
      if (out.rows > kAmxRows) {
        run_block<2, NV>(out, next, lines_each);
      } else {
        run_block<1, NV>(out, next, lines_each);
      }
    });
  }

  template <int RT, int NV>
  void run_block(const AmxOutput& out, const std::uint32_t* next_lines, int lines_each) {
    using Block = AmxBlock<Tiles, RT, NV>;
    const int shape = out.rows * 2 + NV;
    if (shape != shape_) Block::configure(tiles_, out.rows);
    shape_ = shape;
    Block(tiles_, out).run(next_lines, lines_each);
  }

  const GemmArgs& g_;
  AmxBlockOrder order_;
  Tiles tiles_;
  int shape_ = 0;
};

template <class Tiles>
void amx_gemm(const GemmArgs& g) {
  AmxGemm<Tiles>(g).run();
}

}  // namespace
}  // namespace headrace
