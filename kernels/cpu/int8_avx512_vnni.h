// Integer dot products of AVX-512 VNNI. See simd_math.h for the unnamed namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/lanes_avx512.h"
#include "kernels/cpu/simd_int8.h"

namespace headrace {
namespace {

// The dot product of four unsigned and four signed bytes, added to an int32 without saturation.
// Weights are the unsigned side, 128 too large; sums start with what that makes too much.
struct VnniInt8 {
  using Lanes = Avx512Lanes;
  using I = __m512i;
  static constexpr int kElements = 4;
  static constexpr int kDwordsPerStep = 1;
  static constexpr bool kOffset = true;

  static I start(const std::int32_t& offset) {
    I sums;
    // From memory for every sum: one register for a row would be copied to the others.
    asm("vpbroadcastd %1, %0" : "=v"(sums) : "m"(offset));
    return sums;
  }
  static Lanes::V to_float(I sums) { return _mm512_cvtepi32_ps(sums); }

  template <class Rows, int MR, int NV>
  [[gnu::always_inline]] static void step(IntegerSums<VnniInt8, MR, NV>& sums,
                                          const std::uint32_t* a,
                                          const std::uint32_t* const (&w)[NV], std::int64_t at) {
    I columns[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) columns[v] = _mm512_loadu_si512(w[v] + at);
    add_products<Rows>(sums, a, columns);
  }

  // Q: the format whose sums they are.
  template <class Rows, class Q, int MR, int NV>
  [[gnu::always_inline]] static void add_products(IntegerSums<Q, MR, NV>& sums,
                                                  const std::uint32_t* input_of_row0,
                                                  const I (&columns)[NV]) {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const I input = _mm512_set1_epi32(static_cast<int>(input_of_row0[m * Rows::kRowStride]));
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        // GCC 12 copies every sum around the intrinsic, and spills them from 16 rows on.
        asm("vpdpbusd %2, %1, %0" : "+v"(sums.at[m][v]) : "v"(columns[v]), "v"(input));
      }
    }
  }

  /// Sixteen values, rounded to integers, as the inputs of four steps; gives their sum.
  static std::int32_t store_inputs(std::uint32_t* out, Lanes::V v) {
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
    const __m128i fours = _mm_dpbusd_epi32(_mm_setzero_si128(), _mm_set1_epi8(1), bytes);
    const __m128i pairs = _mm_add_epi32(fours, _mm_shuffle_epi32(fours, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 0xB1)));
  }

  /// The same of a whole group: four shuffles instead of eight, and one sum across lanes instead of
  /// four. Packing 208 rows of 576 took 29 us instead of 37.
  static std::int32_t store_group(std::uint32_t* out, const Lanes::V (&v)[4]) {
    const I low = _mm512_packs_epi32(_mm512_cvtps_epi32(v[0]), _mm512_cvtps_epi32(v[1]));
    const I high = _mm512_packs_epi32(_mm512_cvtps_epi32(v[2]), _mm512_cvtps_epi32(v[3]));
    const I fours_of_each = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const I bytes = _mm512_permutexvar_epi32(fours_of_each, _mm512_packs_epi16(low, high));
    _mm512_storeu_si512(out, bytes);
    return _mm512_reduce_add_epi32(
        _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), bytes));
  }
};

// Two dwords of inputs a step, for the two halves of its bytes.
struct VnniInt4 : VnniInt8 {
  static constexpr int kElements = 8;
  static constexpr int kDwordsPerStep = 2;

  static I start(const std::int32_t& /*offset*/) { return _mm512_setzero_si512(); }

  template <class Rows, int MR, int NV>
  [[gnu::always_inline]] static void step(IntegerSums<VnniInt4, MR, NV>& sums,
                                          const std::uint32_t* a,
                                          const std::uint32_t* const (&w)[NV], std::int64_t at) {
    const I low_halves = _mm512_set1_epi8(0x0F);
    I columns[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      columns[v] = _mm512_and_si512(_mm512_loadu_si512(w[v] + at), low_halves);
    }
    add_products<Rows>(sums, a, columns);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      const I high_halves = _mm512_srli_epi32(_mm512_loadu_si512(w[v] + at), 4);
      columns[v] = _mm512_and_si512(high_halves, low_halves);
    }
    add_products<Rows>(sums, a + 1, columns);
  }
};

}  // namespace
}  // namespace headrace
