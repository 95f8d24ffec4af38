// How products of a compute type are taken on the lanes of an instruction set. A format turns one
// dword step (one dword of every row, sixteen columns of dwords) into fused multiply-adds in the
// one order that all formats of a compute type share. See simd_math.h for the unnamed namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd_math.h"

namespace headrace {
namespace {

// Where a tile finds the operands of its rows. Packed: [steps][dwords per step][rows], the odd
// elements of a pair before the even ones.
template <int MR, int DwordsPerStep>
struct PackedRows {
  static constexpr int kStep = MR * DwordsPerStep;
  static constexpr int odd(int row) { return row; }
  static constexpr int even(int row) { return MR + row; }
};

// One row after the other at a fixed distance, elements in natural order. The distance keeps rows
// apart in the sets of the L1 cache.
inline constexpr int kOperandStride = 512 + 16;
template <int DwordsPerStep>
struct StridedRows {
  static constexpr int kStep = DwordsPerStep;
  static constexpr int odd(int row) { return row * kOperandStride + DwordsPerStep - 1; }
  static constexpr int even(int row) { return row * kOperandStride; }
};

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
    add_products<L, MR, NV>(acc, a, Rows::odd(1) - Rows::odd(0), columns);
  }

  static void pack_dword(std::uint32_t* out, int rows, const std::byte* row, std::int64_t /*k*/,
                         std::int64_t step) {
    (void)rows;
    *out = reinterpret_cast<const std::uint32_t*>(row)[step];
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
  /// Sixteen rounded values as operands of StridedRows.
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
    constexpr int kRowStride = Rows::odd(1) - Rows::odd(0);
    V columns[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) columns[v] = L::odd(L::load_dwords(w[v] + at));
    add_products<L, MR, NV>(acc, a + Rows::odd(0), kRowStride, columns);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) columns[v] = L::even(L::load_dwords(w[v] + at));
    add_products<L, MR, NV>(acc, a + Rows::even(0), kRowStride, columns);
  }

  static void pack_dword(std::uint32_t* out, int rows, const std::byte* row, std::int64_t k,
                         std::int64_t step) {
    const auto* elements = reinterpret_cast<const std::uint16_t*>(row);
    const std::int64_t odd = 2 * step + 1;
    out[0] = odd < k ? static_cast<std::uint32_t>(elements[odd]) << 16 : 0;
    out[rows] = static_cast<std::uint32_t>(elements[odd - 1]) << 16;
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
  /// Sixteen rounded values as operands of StridedRows.
  static void store_operands(std::uint32_t* row, int index, V v) {
    L::store(reinterpret_cast<float*>(row) + index, v);
  }
};

}  // namespace
}  // namespace headrace
