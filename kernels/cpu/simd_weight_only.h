// Products of inputs in the compute type with int8 and int4 weights (W8A16, W4A16). A group of
// weights becomes elements of the compute type, exactly, in a buffer that stays in the L1 cache,
// and is then multiplied as any other; scales come afterwards. Bound by reading the weights up to a
// few rows, half or a quarter of bfloat16's; then by turning them into elements, which every block
// of rows does again. See simd_math.h for the unnamed namespace.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cpu/simd_gemm.h"
#include "kernels/quantize.h"

namespace headrace {
namespace {

// Where a dword has its elements, unsigned: IntegerMatrix says how.
template <Quantization W>
struct ElementBits {
  static constexpr bool kInt4 = W == Quantization::kInt4;
  static constexpr int kElements = kInt4 ? 8 : 4;
  static constexpr std::uint32_t kMask = kInt4 ? 0xFU : 0xFFU;
  static constexpr int shift(int i) { return kInt4 ? i % 4 * 8 + i / 4 * 4 : i * 8; }
};

// One dword of sixteen columns; less: what the integers are too large by.
template <class F, Quantization W, int... I>
[[gnu::always_inline]] inline void expand_dwords(std::uint32_t* out, const std::uint32_t* dwords,
                                                 typename F::Lanes::V less,
                                                 std::integer_sequence<int, I...> /*elements*/) {
  using L = typename F::Lanes;
  using Bits = ElementBits<W>;
  const typename L::V elements[] = {
      L::sub(L::template load_bits<Bits::shift(I), Bits::kMask>(dwords), less)...};
#pragma GCC unroll 8
  for (int i = 0; i < Bits::kElements; i += F::kGroup, out += kPanelColumns) {
    if constexpr (F::kGroup == 2) {
      L::store_pair(out, elements[i], elements[i + 1]);
    } else {
      L::store(reinterpret_cast<float*>(out), elements[i]);
    }
  }
}

template <class F, Quantization W, int MR, int NV>
struct WeightOnlyTile {
  using L = typename F::Lanes;
  using Bits = ElementBits<W>;
  static constexpr bool kInt4 = Bits::kInt4;
  static constexpr int kGroupSteps = kExpandedElements / Bits::kElements;
  static constexpr int kRowDwords = kExpandedElements / F::kGroup * F::kDwordsPerStep;
  using Rows = OperandRows<kRowDwords, F::kDwordsPerStep>;

  const GemmTile& tile;
  const PanelPointers<NV> panels;
  // Of the slice or group at hand.
  const float* scales;
  const std::uint16_t* scales16;
  const std::uint8_t* zeros;
  alignas(64) std::uint32_t weights[NV][kExpandedElements / F::kGroup * kPanelColumns];
  alignas(64) float slice[MR][NV][kPanelColumns];  // of int4

  explicit WeightOnlyTile(const GemmTile& t)
      : tile(t),
        panels(t),
        scales(t.gemm->column_scales + t.first_panel * kPanelColumns),
        scales16(t.gemm->column_scales16 + t.first_panel * kPanelColumns),
        zeros(t.gemm->column_zeros + t.first_panel * kPanelColumns) {}

  [[gnu::always_inline]] typename L::V too_large_by(int panel) const {
    if constexpr (kInt4) {
      return L::mul(L::load_bytes(zeros + panel * kPanelColumns), L::set1(0.0625F));
    } else {
      return L::set1(128.0F);
    }
  }

  // Steps [begin, begin + steps) of the panels.
  [[gnu::always_inline]] void expand(std::int64_t begin, std::int64_t steps) {
    const std::int64_t ahead = prefetch_distance<NV>(tile, begin);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const auto less = too_large_by(v);
      std::uint32_t* out = weights[v];
      for (std::int64_t at = begin * kPanelColumns; at < (begin + steps) * kPanelColumns;
           at += kPanelColumns, out += Bits::kElements / F::kGroup * kPanelColumns) {
        __builtin_prefetch(panels.at[v] + at + ahead, 0, 2);
        expand_dwords<F, W>(out, panels.at[v] + at, less,
                            std::make_integer_sequence<int, Bits::kElements>());
      }
    }
  }

  // acc += rows' group at `a` times the expanded weights.
  [[gnu::always_inline]] void multiply(Accumulators<L, MR, NV>& acc, const std::uint32_t* a,
                                       std::int64_t steps) {
    const std::uint32_t* at[NV];
    for (int v = 0; v < NV; ++v) at[v] = weights[v];
    const std::int64_t end = steps * (Bits::kElements / F::kGroup) * kPanelColumns;
    for (std::int64_t i = 0; i < end; i += kPanelColumns, a += F::kDwordsPerStep) {
      F::template step<Rows>(acc, a, at, i);
    }
  }

  [[gnu::always_inline]] void clear_slice() {
    for (int m = 0; m < MR; ++m) {
      for (int v = 0; v < NV; ++v) L::store(slice[m][v], L::zero());
    }
  }

  // slice += the chain of a group of int4 times the columns' scales.
  [[gnu::always_inline]] void add_group(const Accumulators<L, MR, NV>& acc) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const auto columns = L::load_f16(scales16 + v * kPanelColumns);
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        L::store(slice[m][v], L::fma(acc.at[m][v], columns, L::load(slice[m][v])));
      }
    }
    scales16 += tile.gemm->column_stride;
    zeros += tile.gemm->column_stride;
  }

  // acc = the finished slice.
  [[gnu::always_inline]] void finish_slice(Accumulators<L, MR, NV>& acc) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        if constexpr (kInt4) {
          acc.at[m][v] = L::load(slice[m][v]);
        } else {
          acc.at[m][v] = L::mul(acc.at[m][v], L::load(scales + v * kPanelColumns));
        }
      }
    }
    if constexpr (!kInt4) scales += tile.gemm->column_stride;
  }

  static void run(const GemmTile& tile) {
    const GemmArgs& g = *tile.gemm;
    WeightOnlyTile self(tile);
    Accumulators<L, MR, NV> acc;
    TileStack<L, MR, NV> stack;
    const std::uint32_t* rows = tile.rows;
    for (int s = 0; s < g.num_segments; ++s) {
      const Segment& whole = g.segments[s];
      acc.clear();
      if constexpr (kInt4) self.clear_slice();
      for (std::int64_t begin = whole.begin; begin < whole.end; begin += kGroupSteps) {
        const std::int64_t left = whole.end - begin;
        const std::int64_t steps = left < kGroupSteps ? left : kGroupSteps;
        self.expand(begin, steps);
        self.multiply(acc, rows, steps);
        if constexpr (kInt4) {
          self.add_group(acc);
          acc.clear();
        }
        rows += MR * kRowDwords;
      }
      self.finish_slice(acc);
      stack.merge(acc, whole.merges);
      if (s + 1 < g.num_segments) stack.push(acc);
    }
    finish_values(stack, acc, tile);
  }
};

// Expanding bounds these, not the weights' way from memory: one kind of prefetch does for all, and
// halves what there is to compile.
template <class F, int MR, int NV, Prefetch /*any*/>
using Int8WeightsTile = WeightOnlyTile<F, Quantization::kInt8, MR, NV>;
template <class F, int MR, int NV, Prefetch /*any*/>
using Int4WeightsTile = WeightOnlyTile<F, Quantization::kInt4, MR, NV>;

template <class F>
void int8_weights_gemm(const GemmArgs& g) {
  gemm<F, Int8WeightsTile>(g);
}

template <class F>
void int4_weights_gemm(const GemmArgs& g) {
  gemm<F, Int4WeightsTile>(g);
}

// Rows of a product, group by group, counted from the beginning of each slice: [groups][rows].
template <class F>
void pack_groups(const PackArgs& args) {
  constexpr int kRowDwords = kExpandedElements / F::kGroup * F::kDwordsPerStep;
  std::uint32_t* out = args.packed;
  for (int s = 0; s < args.num_segments; ++s) {
    const Segment& segment = args.segments[s];
    for (std::int32_t first = 0; first < segment.num_elements; first += kExpandedElements) {
      for (int r = 0; r < args.num_rows; ++r, out += kRowDwords) {
        const std::int64_t row = (args.first_row + r) * args.k + segment.first_element;
        for (std::int32_t i = 0; i < kExpandedElements; i += 16) {
          const std::int32_t left = segment.num_elements - first - i;
          const int n = left > 16 ? 16 : left < 0 ? 0 : left;
          F::store_operands(out, i, F::load_elements(args.x, row + first + i, n));
        }
      }
    }
  }
}

template <class F, Quantization W>
constexpr ProductKernels make_weight_only_kernels() {
  return {.tile_rows = F::Lanes::kTileRows,
          .dwords_per_step = ElementBits<W>::kElements / F::kGroup * F::kDwordsPerStep,
          .pack = pack_groups<F>,
          .gemm = W == Quantization::kInt4 ? int4_weights_gemm<F> : int8_weights_gemm<F>};
}

}  // namespace
}  // namespace headrace
