// Products of bfloat16 by tiles: a block of up to 32 rows times two panels is four tiles of sums,
// each loaded tile enters two products, and packed rows and panels are tiles as they lie in memory.
// Bound by the ways of rows and panels to the tiles: 208 rows x 576 x 960 reach 53 % of the tiles'
// peak, slices of 64 and 192 elements, whose sums go to memory after every second or sixth product,
// 30 % (one core, all in its L2 cache). See simd_math.h for the unnamed namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/amx_sums.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/kernel_table.h"

namespace headrace {
namespace {

// Rows of a block: two tiles.
inline constexpr int kAmxBlockRows = 2 * kAmxRows;

// Panels that a block takes at a time.
inline constexpr int kAmxPanels = 2;

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
        rows[r][i] = step < end ? packed[run * kPackedRunDwords + step % kPackedRunDwords] : 0;
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
  using Sums = AmxSums<kAmxRows, NV>;

 public:
  /// panels: NV of them, one after the other.
  AmxBlock(Tiles& tiles, const AmxOutput& out, const std::uint32_t* panels)
      : tiles_(tiles), out_(out), g_(*out.gemm) {
    rows_ = g_.packed + out.first_row * g_.row_dwords;
    for (int v = 0; v < NV; ++v) panels_[v] = panels + v * g_.steps * kPanelColumns;
  }

  static void configure(Tiles& tiles, int rows) {
    AmxShapes shapes;
    for (int set = 0; set < 2; ++set) {
      const int own = RT == 1 ? rows : rows_of(rows, set);
      shapes.set(2 * set, own);
      shapes.set(2 * set + 1, own);
      shapes.set(4 + set, own);
      shapes.set(6 + set, kAmxDwords);
    }
    tiles.configure(shapes);
  }

  /// next_lines: what to fetch meanwhile, so many lines with every sixteen steps.
  void run(const std::uint32_t* next_lines, int lines_each) {
    next_lines_ = next_lines;
    lines_each_ = lines_each;
    if (g_.num_segments == 1 && g_.column_scales == nullptr && out_.plain(NV)) {
      multiply_whole();
    } else {
      multiply_slices();
    }
  }

 private:
  // Of the two tiles of rows.
  static int rows_of(int rows, int tile) {
    const int first = rows < kAmxRows ? rows : kAmxRows;
    return tile == 0 ? first : rows - first;
  }

  // The only slice: all tiles of sums at once, and from there to where they belong.
  void multiply_whole() {
    out_.fetch(NV);
    zero<0>();
    if constexpr (RT > 1) zero<1>();
    const Segment& slice = g_.segments[0];
    for (std::int64_t step = slice.begin; step < slice.end; step += kAmxDwords) {
      fetch();
      const Operands at = find(step, slice.end, 0);
      load_panels(at);
      multiply<0>(at.rows);
      if constexpr (RT > 1) multiply<1>(at.rows + kAmxRows * kAmxDwords);
    }
    store<0>(out_.at(0, 0), g_.out_stride);
    if constexpr (RT > 1) store<1>(out_.at(kAmxRows, 0), g_.out_stride);
  }

  // Slice by slice, of each one tile of rows after the other, with two sets of sums in turns: what
  // a set holds is stored when the next one has its products under way, and taken from memory once
  // more later, so that nothing waits for a store.
  void multiply_slices() {
    Sums sums[RT];
    alignas(64) float stored[2][kAmxRows * Sums::kStride];
    const int units = g_.num_segments * RT;
    const auto end_unit = [&](int unit) {
      const int tile = RT == 1 ? 0 : unit % 2;
      const int s = unit / RT;
      const AmxOutput part = out_.part(tile * kAmxRows, rows_of(out_.rows, tile));
      if (g_.column_scales != nullptr) scale(stored[unit % 2], part.rows, s);
      sums[tile].end_slice(part, stored[unit % 2], g_.segments[s].merges, s + 1 == g_.num_segments);
    };
    for (int unit = 0; unit < units; unit += 2) {
      add_unit<0>(unit);
      if (unit > 0) {
        store<1>(stored[1], Sums::kStride);
        end_unit(unit - 2);
      }
      if (unit + 1 == units) {
        if (unit > 0) end_unit(unit - 1);
        store<0>(stored[0], Sums::kStride);
        end_unit(unit);
        return;
      }
      add_unit<1>(unit + 1);
      store<0>(stored[0], Sums::kStride);
      if (unit > 0) end_unit(unit - 1);
    }
    store<1>(stored[1], Sums::kStride);
    end_unit(units - 2);
    end_unit(units - 1);
  }

  // Finished sums by what the columns have for slice s.
  void scale(float* sums, int rows, int s) const {
    using L = Avx512Lanes;
    const float* const scales =
        g_.column_scales + s * g_.column_stride + out_.first_panel * kPanelColumns;
    for (int v = 0; v < NV; ++v) {
      const L::V columns = L::load(scales + v * kPanelColumns);
      for (int m = 0; m < rows; ++m) {
        float* const at = sums + m * Sums::kStride + v * kPanelColumns;
        L::store(at, L::mul(L::load(at), columns));
      }
    }
  }

  template <int Set>
  void add_unit(int unit) {
    const Segment& slice = g_.segments[unit / RT];
    constexpr int tile = Set * (RT - 1);
    zero<Set>();
    for (std::int64_t step = slice.begin; step < slice.end; step += kAmxDwords) {
      if (tile == 0) fetch();
      const Operands at = find(step, slice.end, tile * kAmxRows);
      load_panels(at);
      multiply<Set>(at.rows);
    }
  }

  void fetch() {
    for (int i = 0; i < lines_each_; ++i) {
      __builtin_prefetch(next_lines_, 0, 2);
      next_lines_ += kPanelColumns;
    }
  }

  struct Operands {
    const std::uint32_t* rows;
    const std::uint32_t* panels[NV];
  };

  // Sixteen steps from `step` on, or to the end of the slice, from row first_row of the block on.
  Operands find(std::int64_t step, std::int64_t end, int first_row) {
    Operands found;
    if (step % kPackedRunDwords == 0 && step + kAmxDwords <= end) {
      found.rows = rows_ + step * out_.rows + first_row * kAmxDwords;
      for (int v = 0; v < NV; ++v) found.panels[v] = panels_[v] + step * kPanelColumns;
      return found;
    }
    const std::int64_t steps = end - step < kAmxDwords ? end - step : kAmxDwords;
    ragged_.copy_rows(rows_, out_.rows, step, step + steps);
    found.rows = ragged_.rows[first_row];
    for (int v = 0; v < NV; ++v) {
      ragged_.copy_panel(v, panels_[v] + step * kPanelColumns, steps);
      found.panels[v] = ragged_.panels[v];
    }
    return found;
  }

  template <int Set>
  void zero() {
    tiles_.template zero<2 * Set>();
    if constexpr (NV > 1) tiles_.template zero<2 * Set + 1>();
  }
  template <int Set>
  void store(float* to, std::int64_t stride) {
    tiles_.template store<2 * Set>(to, stride);
    if constexpr (NV > 1) tiles_.template store<2 * Set + 1>(to + kPanelColumns, stride);
  }
  void load_panels(const Operands& at) {
    tiles_.template load<6>(at.panels[0]);
    if constexpr (NV > 1) tiles_.template load<7>(at.panels[1]);
  }
  template <int Set>
  void multiply(const std::uint32_t* rows) {
    tiles_.template load_passing<4 + Set>(rows);
    tiles_.template add_bf16<2 * Set, 4 + Set, 6>();
    if constexpr (NV > 1) tiles_.template add_bf16<2 * Set + 1, 4 + Set, 7>();
  }

  Tiles& tiles_;
  const AmxOutput& out_;
  const GemmArgs& g_;
  const std::uint32_t* rows_;
  const std::uint32_t* panels_[NV];
  const std::uint32_t* next_lines_ = nullptr;
  int lines_each_ = 0;
  RaggedStep ragged_;
};

// Blocks differ by at most one row. Those of one size come one after the other, in turns the small
// and the large ones first, so that tiles change their shape once for every group of panels.
class AmxBlockOrder {
 public:
  AmxBlockOrder(std::int64_t rows, std::int64_t blocks) : rows_(rows), blocks_(blocks) {}

  std::int64_t count() const { return blocks_; }
  std::int64_t begin(std::int64_t block) const { return block * rows_ / blocks_; }
  int size(std::int64_t block) const { return static_cast<int>(begin(block + 1) - begin(block)); }

  /// The first of the lines that a block fetches, from the first of the panels at hand, which have
  /// so many: each block its part of the next panels, a single one its own ahead.
  std::int64_t fetched_from(std::int64_t block, std::int64_t panel_lines) const {
    return blocks_ == 1 ? kAmxFetchLines : panel_lines + block * panel_lines / blocks_;
  }
  /// How many of them with every sixteen steps of panels that have so many lines for these.
  std::int64_t fetched_each(std::int64_t lines) const { return (lines + blocks_ - 1) / blocks_; }

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

// Panels that blocks read where they lie.
class AmxStoredPanels {
 public:
  explicit AmxStoredPanels(const GemmArgs& g) : g_(g) {}

  /// The product as blocks take it.
  const GemmArgs& product() const { return g_; }
  /// NV panels from this one on, until the next call.
  template <int NV>
  const std::uint32_t* take(std::int64_t panel) const {
    return g_.weights + panel * g_.steps * kPanelColumns;
  }
  /// What a block fetches meanwhile, and how many lines with every sixteen steps.
  template <int NV>
  const std::uint32_t* fetched(const AmxBlockOrder& order, std::int64_t panel,
                               std::int64_t block) const {
    return take<NV>(panel) + order.fetched_from(block, NV * g_.steps) * kPanelColumns;
  }
  template <int NV>
  int fetched_each(const AmxBlockOrder& order) const {
    return static_cast<int>(order.fetched_each(NV * kAmxDwords));
  }

 private:
  const GemmArgs& g_;
};

template <class Tiles, class Panels>
class AmxGemm {
 public:
  explicit AmxGemm(const GemmArgs& g)
      : panels_(g), g_(panels_.product()), order_(g.rows, num_row_blocks(g.rows, kAmxBlockRows)) {}

  void run() {
    std::int64_t panel = g_.panel_begin;
    for (; panel + kAmxPanels <= g_.panel_end; panel += kAmxPanels) over_blocks<kAmxPanels>(panel);
    if (panel < g_.panel_end) over_blocks<1>(panel);
  }

 private:
  template <int NV>
  void over_blocks(std::int64_t panel) {
    const int lines_each = panels_.template fetched_each<NV>(order_);
    const std::uint32_t* const weights = panels_.template take<NV>(panel);
    order_.each(panel / 2 % 2 == 0, [&](std::int64_t b) {
      const AmxOutput out{
          .gemm = &g_, .first_row = order_.begin(b), .rows = order_.size(b), .first_panel = panel};
      const std::uint32_t* const next = panels_.template fetched<NV>(order_, panel, b);
      if (out.rows > kAmxRows) {
        block_of<2, NV>(out, weights).run(next, lines_each);
      } else {
        block_of<1, NV>(out, weights).run(next, lines_each);
      }
    });
  }

  template <int RT, int NV>
  AmxBlock<Tiles, RT, NV> block_of(const AmxOutput& out, const std::uint32_t* weights) {
    const int shape = out.rows * 2 + NV;
    if (shape != shape_) AmxBlock<Tiles, RT, NV>::configure(tiles_, out.rows);
    shape_ = shape;
    return {tiles_, out, weights};
  }

  Tiles tiles_;
  Panels panels_;
  const GemmArgs& g_;
  AmxBlockOrder order_;
  int shape_ = 0;
};

template <class Tiles>
void amx_gemm(const GemmArgs& g) {
  AmxGemm<Tiles, AmxStoredPanels>(g).run();
}

}  // namespace
}  // namespace headrace
