// Products with int8 and int4 weights. Rows are quantised when they are packed, group by group; a
// tile sums a group's integers exactly, in any order, adds the sums as scaled float32 to those of
// the slice, and from there on walks the tree as the tiles of other types do. Bound by the integer
// dot products from about 8 rows on, by reading the weights below. See simd_math.h for the unnamed
// namespace.
//
// A format says how an instruction set takes one dword step, the integers of sixteen columns:
//   Lanes            the float lanes of the instruction set
//   I                sixteen int32 sums
//   kElements        of a column in a step: 4 int8, 8 int4
//   kDwordsPerStep   dwords of a packed row that a step reads
//   kOffset          whether it takes int8 weights with their offset
//   start()          where sums then begin, by GemmArgs::row_offsets
//   step(), to_float(); and of int8: store_inputs(), and store_group() where that takes a whole
//   group in less time
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

// What the inputs of a tile's rows, and its columns, have for a group of int4 weights.
struct InputGroup {
  const float* scales;
  const float* sums;
};
struct ColumnGroup {
  const std::uint16_t* scales;
  const std::uint8_t* zeros;
};

// A group of int8 weights: the scales of a tile's rows in it, those of its columns in the whole
// slice, and where in the slice it is.
struct SliceGroup {
  const float* row_scales;
  const float* column_scales;
  bool first;
  bool last;
};

// Float sums of a tile over the groups of a slice. They are in memory on purpose: the integers of
// the group at hand take the registers. The first group writes them, and what the last one makes of
// them is the value of the slice: one of a single group does not pass through memory.
template <class Q, int MR, int NV>
struct SliceSums {
  using L = typename Q::Lanes;
  using V = typename L::V;
  alignas(64) float at[MR][NV][kPanelColumns];

  // Where columns have one scale for the whole slice. That the first product is not added to zero
  // changes no bit: it is +0, normal or not a number (int8_scale()). The last group gives `acc`.
  [[gnu::always_inline]] void add(Accumulators<L, MR, NV>& acc, const IntegerSums<Q, MR, NV>& sums,
                                  const SliceGroup& group) {
    const float* scales = group.row_scales;
    const auto write = [&](int m, int v, V value) { L::store(at[m][v], value); };
    const auto finish = [&](int m, int v, V value) {
      acc.at[m][v] = L::mul(value, L::load(group.column_scales + v * kPanelColumns));
    };
    if (group.first) {
      const auto product = [&](int m, int v, V scale) {
        return L::mul(Q::to_float(sums.at[m][v]), scale);
      };
      group.last ? each(scales, product, finish) : each(scales, product, write);
    } else {
      const auto sum = [&](int m, int v, V scale) {
        return L::fma(Q::to_float(sums.at[m][v]), scale, L::load(at[m][v]));
      };
      group.last ? each(scales, sum, finish) : each(scales, sum, write);
    }
  }

  // Where columns have a scale and a zero point for each group. Taking the zero points off is
  // exact: sixteenths of integers below 2^20.
  [[gnu::always_inline]] void add(const IntegerSums<Q, MR, NV>& sums, const InputGroup& inputs,
                                  const ColumnGroup& columns) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const auto column_scales = L::load_f16(columns.scales + v * kPanelColumns);
      const auto less = L::mul(L::load_bytes(columns.zeros + v * kPanelColumns), L::set1(-0.0625F));
#pragma GCC unroll 16
      for (int m = 0; m < MR; ++m) {
        const auto sum = L::fma(less, L::set1(inputs.sums[m]), Q::to_float(sums.at[m][v]));
        const auto scaled = L::mul(sum, L::set1(inputs.scales[m]));
        L::store(at[m][v], L::fma(scaled, column_scales, L::load(at[m][v])));
      }
    }
  }

  [[gnu::always_inline]] void copy_to(Accumulators<L, MR, NV>& acc) const {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) acc.at[m][v] = L::load(at[m][v]);
    }
  }

  [[gnu::always_inline]] void clear() {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) L::store(at[m][v], L::zero());
    }
  }

 private:
  // keep(m, v, value(m, v, scale of row m)) for all of the tile.
  template <class Value, class Keep>
  [[gnu::always_inline]] static void each(const float* scales, const Value& value,
                                          const Keep& keep) {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const V scale = L::set1(scales[m]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) keep(m, v, value(m, v, scale));
    }
  }
};

template <class Q, int MR, int NV>
[[gnu::always_inline]] inline void start_sums(IntegerSums<Q, MR, NV>& sums,
                                              const std::int32_t* row_offsets) {
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sums.at[m][v] = Q::start(row_offsets[m]);
  }
}

// Groups of packed rows: [groups][rows][steps of a group].
template <class Q>
inline constexpr std::int32_t kGroupSteps = kQuantizationGroup / Q::kElements;
template <class Q>
using GroupRows = OperandRows<kGroupSteps<Q> * Q::kDwordsPerStep, Q::kDwordsPerStep>;

// Steps [begin, end) of the panels, one group and not an empty one, whose rows begin at `a`. That
// the first step is taken without asking saves moving all sums to other registers before and after.
template <class Q, int MR, int NV, Prefetch P>
[[gnu::always_inline]] inline void add_group(IntegerSums<Q, MR, NV>& sums, const GemmTile& tile,
                                             const PanelPointers<NV>& panels,
                                             const std::uint32_t* a, const Segment& group) {
  constexpr int kLines =
      kRowLinesPerStep<MR * GroupRows<Q>::kRowStride / kRunDwords, kGroupSteps<Q>>;
  const std::uint32_t* next_rows = a + MR * GroupRows<Q>::kRowStride;
  const std::int64_t ahead = prefetch_distance<NV>(tile, group.begin);
  const std::int64_t next_stride = tile.next_stride;
  const std::uint32_t* next_lines = tile.next_lines + group.begin * next_stride;
  const std::int64_t end = group.end * kPanelColumns;
  std::int64_t at = group.begin * kPanelColumns;
  do {
    fetch_rows<kLines>(next_rows);
    if constexpr (P == Prefetch::kNextPanels) {
      __builtin_prefetch(next_lines, 0, 2);
    } else {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) __builtin_prefetch(panels.at[v] + at + ahead, 0, 2);
    }
    Q::template step<GroupRows<Q>>(sums, a, panels.at, at);
    at += kPanelColumns;
    a += Q::kDwordsPerStep;
    next_rows += kLines * kRunDwords;
    next_lines += next_stride;
  } while (at < end);
}

template <class Q, int MR, int NV, Prefetch P>
struct IntegerTile {
  using Sums = IntegerSums<Q, MR, NV>;
  using Slice = SliceSums<Q, MR, NV>;

  static void run(const GemmTile& tile) {
    const GemmArgs& g = *tile.gemm;
    const PanelPointers<NV> panels(tile);
    Accumulators<typename Q::Lanes, MR, NV> acc;
    TileStack<typename Q::Lanes, MR, NV> stack;
    Slice slice;
    const std::uint32_t* rows = tile.rows;  // of the group at hand, as is `at`
    std::int64_t at = tile.first_row;
    const float* columns = g.column_scales + tile.first_panel * kPanelColumns;
    for (int s = 0; s < g.num_segments; ++s) {
      const Segment& whole = g.segments[s];
      for (std::int32_t begin = whole.begin; begin < whole.end; begin += kGroupSteps<Q>) {
        const std::int32_t rest = whole.end - begin;
        const std::int32_t end = begin + (kGroupSteps<Q> < rest ? kGroupSteps<Q> : rest);
        Sums sums;
        start_sums(sums, g.row_offsets + at);
        add_group<Q, MR, NV, P>(sums, tile, panels, rows, {.begin = begin, .end = end});
        slice.add(acc, sums,
                  {.row_scales = g.row_scales + at,
                   .column_scales = columns,
                   .first = begin == whole.begin,
                   .last = end == whole.end});
        rows += MR * GroupRows<Q>::kRowStride;
        at += g.rows;
      }
      columns += g.column_stride;
      stack.merge(acc, whole.merges);
      if (s + 1 < g.num_segments) stack.push(acc);
    }
    finish_values(stack, acc, tile);
  }
};

// The same for int4: each half of a group of inputs meets a group of weights.
template <class Q, int MR, int NV, Prefetch P>
struct Int4Tile {
  static_assert(2 * kInt4Group == kQuantizationGroup);
  static constexpr std::int32_t kHalfSteps = kGroupSteps<Q> / 2;

  static void run(const GemmTile& tile) {
    const GemmArgs& g = *tile.gemm;
    const PanelPointers<NV> panels(tile);
    Accumulators<typename Q::Lanes, MR, NV> acc;
    TileStack<typename Q::Lanes, MR, NV> stack;
    SliceSums<Q, MR, NV> slice;
    const std::uint32_t* rows = tile.rows;  // of the group of inputs at hand
    InputGroup inputs{g.row_scales + tile.first_row, g.row_half_sums + tile.first_row};
    ColumnGroup columns{g.column_scales16 + tile.first_panel * kPanelColumns,
                        g.column_zeros + tile.first_panel * kPanelColumns};
    for (int s = 0; s < g.num_segments; ++s) {
      const Segment& whole = g.segments[s];
      slice.clear();
      for (std::int32_t begin = whole.begin; begin < whole.end; begin += kGroupSteps<Q>) {
        for (int half = 0; half < 2; ++half, inputs.sums += g.rows) {
          const std::int32_t first = begin + half * kHalfSteps;
          if (first >= whole.end) continue;
          const std::int32_t end = first + kHalfSteps < whole.end ? first + kHalfSteps : whole.end;
          IntegerSums<Q, MR, NV> sums;
          start_sums(sums, g.row_offsets);
          add_group<Q, MR, NV, P>(sums, tile, panels, rows + half * kHalfSteps * Q::kDwordsPerStep,
                                  {.begin = first, .end = end});
          slice.add(sums, inputs, columns);
          columns.scales += g.column_stride;
          columns.zeros += g.column_stride;
        }
        rows += MR * GroupRows<Q>::kRowStride;
        inputs.scales += g.rows;
      }
      slice.copy_to(acc);
      stack.merge(acc, whole.merges);
      if (s + 1 < g.num_segments) stack.push(acc);
    }
    finish_values(stack, acc, tile);
  }
};

template <class Q>
void integer_gemm(const GemmArgs& g) {
  gemm<Q, IntegerTile>(g);
}

template <class Q>
void int4_gemm(const GemmArgs& g) {
  gemm<Q, Int4Tile>(g);
}

// What a scale is made from.
template <class L>
struct Magnitude16 {
  typename L::V magnitudes = L::zero();
  typename L::V probe = L::zero();  // of zeros, unless something is not finite

  [[gnu::always_inline]] void add(typename L::V values) {
    magnitudes = L::max(magnitudes, L::max(values, L::negate(values)));
    probe = L::fma(values, L::zero(), probe);
  }
  float largest() const { return L::max_lane(magnitudes); }
  bool finite() const { return L::sum(probe) == 0.0F; }
};

// One group of one row: its elements [begin, end) of x.
template <class F, class Q>
struct Int8Group {
  const std::byte* x;
  std::int64_t begin;
  std::int64_t end;

  using L = typename F::Lanes;

  typename L::V read(std::int64_t i) const { return F::load_elements(x, i, lanes_at(i, end)); }

  IntegerScale scale() const {
    Magnitude16<L> magnitude;
    for (std::int64_t i = begin; i < end; i += 16) magnitude.add(read(i));
    return int8_scale(magnitude.largest(), magnitude.finite());
  }

  // Stores all integers and gives where sums begin (Q::start()).
  std::int32_t store(std::uint32_t* out, const IntegerScale& scale) const {
    const std::int32_t sum = store(out, scale, 0, static_cast<int>(end - begin));
    return Q::kOffset ? -128 * sum : 0;
  }

  // Stores the integers from element `first` of the group on, before `last`, in their places, and
  // gives their sum.
  std::int32_t store(std::uint32_t* out, const IntegerScale& scale, int first, int last) const {
    std::int32_t sum = 0;
    for (std::int64_t i = begin + first; i < end && i < begin + last; i += 16) {
      sum += Q::store_inputs(out + (i - begin) / 4 * Q::kDwordsPerStep,
                             L::mul(read(i), L::set1(scale.inverse)));
    }
    return sum;
  }
};

// The same of at most kQuantizationGroup elements, which are read once. What is missing to a whole
// group counts as zero.
template <class F, class Q>
class Int8RegisterGroup {
  using L = typename F::Lanes;

 public:
  [[gnu::always_inline]] Int8RegisterGroup(const std::byte* x, std::int64_t begin,
                                           std::int64_t end) {
    if (end - begin == kQuantizationGroup) {
#pragma GCC unroll 4
      for (int i = 0; i < kRegisters; ++i) at_[i] = F::load_elements(x, begin + 16 * i, 16);
      return;
    }
    for (int i = 0; i < kRegisters; ++i) {
      const std::int64_t first = begin + 16 * i;
      at_[i] = first < end ? F::load_elements(x, first, lanes_at(first, end)) : L::zero();
    }
  }

  [[gnu::always_inline]] IntegerScale scale() const {
    Magnitude16<L> magnitude;
#pragma GCC unroll 4
    for (int i = 0; i < kRegisters; ++i) magnitude.add(at_[i]);
    return int8_scale(magnitude.largest(), magnitude.finite());
  }

  // Stores all integers and gives where sums begin (Q::start()).
  [[gnu::always_inline]] std::int32_t store(std::uint32_t* out, const IntegerScale& scale) const {
    const std::int32_t sum = store_all(out, L::set1(scale.inverse));
    return Q::kOffset ? -128 * sum : 0;
  }

  // Stores the integers from element `first` of the group on, before `last`, in their places, and
  // gives their sum.
  [[gnu::always_inline]] std::int32_t store(std::uint32_t* out, const IntegerScale& scale,
                                            int first, int last) const {
    return store_some(out, L::set1(scale.inverse), first / 16, last / 16);
  }

 private:
  static constexpr int kRegisters = kQuantizationGroup / 16;

  [[gnu::always_inline]] std::int32_t store_all(std::uint32_t* out, typename L::V inverse) const {
    if constexpr (requires { Q::store_group(out, at_); }) {
      typename L::V scaled[kRegisters];
#pragma GCC unroll 4
      for (int i = 0; i < kRegisters; ++i) scaled[i] = L::mul(at_[i], inverse);
      return Q::store_group(out, scaled);
    } else {
      return store_some(out, inverse, 0, kRegisters);
    }
  }

  // Registers [begin, end).
  [[gnu::always_inline]] std::int32_t store_some(std::uint32_t* out, typename L::V inverse,
                                                 int begin, int end) const {
    std::int32_t sum = 0;
#pragma GCC unroll 4
    for (int i = begin; i < end; ++i) {
      sum += Q::store_inputs(out + 4 * i * Q::kDwordsPerStep, L::mul(at_[i], inverse));
    }
    return sum;
  }

  typename L::V at_[kRegisters];
};

// Rows of inputs in format F, for weights of int8 or int4.
template <class F, class Q, Quantization W>
void pack_int8(const PackArgs& args) {
  std::uint32_t* out = args.packed;
  std::int64_t group_at = 0;
  for (int s = 0; s < args.num_segments; ++s) {
    const Segment& segment = args.segments[s];
    for (std::int32_t first = 0; first < segment.num_elements; first += kQuantizationGroup) {
      const std::int32_t left = segment.num_elements - first;
      for (int r = 0; r < args.num_rows; ++r) {
        const std::int64_t begin = (args.first_row + r) * args.k + segment.first_element + first;
        const Int8RegisterGroup<F, Q> group{
            args.x, begin, begin + (left < kQuantizationGroup ? left : kQuantizationGroup)};
        const IntegerScale scale = group.scale();
        args.scales[group_at + r] = scale.scale;
        if constexpr (W == Quantization::kInt4) {
          float* const sums = args.half_sums + 2 * group_at + r;
          sums[0] = static_cast<float>(group.store(out, scale, 0, kInt4Group));
          sums[args.group_stride] =
              static_cast<float>(group.store(out, scale, kInt4Group, kQuantizationGroup));
        } else {
          args.offsets[group_at + r] = group.store(out, scale);
        }
        out += GroupRows<Q>::kRowStride;
      }
      group_at += args.group_stride;
    }
  }
}

}  // namespace
}  // namespace headrace
