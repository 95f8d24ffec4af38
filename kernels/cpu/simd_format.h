// How products of a compute type are taken on the lanes of an instruction set. A format turns one
// dword step (one dword of every row, sixteen columns of dwords) into fused multiply-adds in the
// one order that all formats of a compute type share. See simd_math.h for the unnamed namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd_math.h"

namespace headrace {
namespace {

// Lanes of the register that starts at `begin` and must not pass `end`.
[[gnu::always_inline]] inline int lanes_at(std::int64_t begin, std::int64_t end) {
  return end - begin < 16 ? static_cast<int>(end - begin) : 16;
}

// Where a tile finds the operands of its rows: elements in natural order, the same distance between
// rows everywhere, so that every operand is at a constant offset from one moving pointer.
template <int RowStride, int DwordsPerStep>
struct OperandRows {
  static constexpr int kStep = DwordsPerStep;
  static constexpr int kRowStride = RowStride;
  static constexpr int kOdd = DwordsPerStep - 1;  // of a pair, where the halves are apart
};

// Packed rows of a product: runs of sixteen dwords of every row of a block, [runs][rows][16].
inline constexpr int kRunDwords = kPackedRunDwords;
template <class F>
using PackedRows = OperandRows<kRunDwords, F::kDwordsPerStep>;

// Whole rows of attention; the distance keeps them apart in the sets of the L1 cache.
inline constexpr int kOperandStride = 512 + 16;
template <class F>
using StridedRows = OperandRows<kOperandStride, F::kDwordsPerStep>;

template <class L, int MR, int NV>
struct Accumulators {
  typename L::V at[MR][NV];

  [[gnu::always_inline]] void clear() {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) at[m][v] = L::zero();
    }
  }
};

// at[m][v] = fma(row m's operand, columns[v], at[m][v]).
template <class L, int MR, int NV>
[[gnu::always_inline]] inline void add_products(Accumulators<L, MR, NV>& acc,
                                                const std::uint32_t* operand_of_row0,
                                                int row_stride,
                                                const typename L::V (&columns)[NV]) {
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
    const auto operand = L::broadcast(operand_of_row0 + m * row_stride);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) acc.at[m][v] = L::fma(operand, columns[v], acc.at[m][v]);
  }
}

// float32: a dword is one element.
template <class L>
struct Float32Format {
  using Lanes = L;
  using V = typename L::V;
  static constexpr int kGroup = 1;
  static constexpr int kDwordsPerStep = 1;

  template <class Rows, int MR, int NV>
  [[gnu::always_inline]] static void step(Accumulators<L, MR, NV>& acc, const std::uint32_t* a,
                                          const std::uint32_t* const (&w)[NV], std::int64_t at) {
    V columns[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) columns[v] = L::load_dwords(w[v] + at);
    add_products<L, MR, NV>(acc, a, Rows::kRowStride, columns);
  }

  static V round(V v) {
    return v;
  }
  static V load_elements(const std::byte* p, std::int64_t index, int n) {
    return L::load_first(reinterpret_cast<const float*>(p) + index, n);
  }
  static void store_elements(std::byte* p, std::int64_t index, V v, int n) {
    L::store_first(reinterpret_cast<float*>(p) + index, v, n);
  }
  /// Sixteen rounded values as operands.
  static void store_operands(std::uint32_t* row, int index, V v) {
    L::store(reinterpret_cast<float*>(row) + index, v);
  }
};

// bfloat16 by two float32 multiply-adds on expanded halves, the odd element first: what the dot
// product instruction does in one. Rows are expanded when they are packed, columns in registers.
template <class L>
struct SplitBf16Format {
  using Lanes = L;
  using V = typename L::V;
  static constexpr int kGroup = 2;
  static constexpr int kDwordsPerStep = 2;

  template <class Rows, int MR, int NV>
  [[gnu::always_inline]] static void step(Accumulators<L, MR, NV>& acc, const std::uint32_t* a,
                                          const std::uint32_t* const (&w)[NV], std::int64_t at) {
    V columns[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) columns[v] = L::odd(L::load_dwords(w[v] + at));
    add_products<L, MR, NV>(acc, a + Rows::kOdd, Rows::kRowStride, columns);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) columns[v] = L::even(L::load_dwords(w[v] + at));
    add_products<L, MR, NV>(acc, a, Rows::kRowStride, columns);
  }

  static V round(V v) {
    return L::round_bf16(v);
  }
  static V load_elements(const std::byte* p, std::int64_t index, int n) {
    return L::load_bf16_first(reinterpret_cast<const std::uint16_t*>(p) + index, n);
  }
  static void store_elements(std::byte* p, std::int64_t index, V v, int n) {
    L::store_high_halves(reinterpret_cast<std::uint16_t*>(p) + index, L::round_bf16(v), n);
  }
  /// Sixteen rounded values as operands.
  static void store_operands(std::uint32_t* row, int index, V v) {
    L::store(reinterpret_cast<float*>(row) + index, v);
  }
};

// bfloat16 whose operands stay dwords of two.
template <class L>
struct PairedBf16Format : SplitBf16Format<L> {
  static constexpr int kDwordsPerStep = 1;

  static void store_operands(std::uint32_t* row, int index, typename L::V v) {
    L::store_high_halves(reinterpret_cast<std::uint16_t*>(row) + index, v, 16);
  }
};

}  // namespace
}  // namespace headrace
