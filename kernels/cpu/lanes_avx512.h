// Sixteen float32 lanes in one AVX-512 register. See simd_math.h for why this is an unnamed
// namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace headrace {
namespace {

struct Avx512Lanes {
  using V = __m512;
  // Rows of a register tile of one, two or four panels. Of 32 registers the sums take at most 26;
  // weights, a broadcast and constants need the rest, or the inner loop moves sums to the stack.
  static constexpr int kTileRows = 13;
  static constexpr int tile_rows(int panels) { return panels == 4 ? 5 : 13; }

  static __mmask16 first(int n) { return static_cast<__mmask16>((1U << n) - 1U); }

  static V zero() { return _mm512_setzero_ps(); }
  static V set1(float x) { return _mm512_set1_ps(x); }
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load_first(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static V load_f16(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static V load_bytes(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  /// Of each dword the bits from Shift on, as far as Mask has them, as an integer.
  template <int Shift, std::uint32_t Mask>
  static V load_bits(const std::uint32_t* p) {
    const __m512i bits = _mm512_srli_epi32(_mm512_loadu_si512(p), Shift);
    return _mm512_cvtepi32_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(Mask))));
  }
  static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void store_first(float* p, V v, int n) { _mm512_mask_storeu_ps(p, first(n), v); }

  static V add(V a, V b) { return _mm512_add_ps(a, b); }
  static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  static V mul(V a, V b) { return _mm512_mul_ps(a, b); }
  static V div(V a, V b) { return _mm512_div_ps(a, b); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V sqrt(V a) { return _mm512_sqrt_ps(a); }
  // a < b ? a : b and a > b ? a : b: the second operand where the first is no smaller or larger.
  static V min(V a, V b) { return _mm512_min_ps(a, b); }
  static V max(V a, V b) { return _mm512_max_ps(a, b); }
  static V negate(V a) {
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN)));
  }

  /// Lanes below n of a, the others of b.
  static V select_first(int n, V a, V b) { return _mm512_mask_mov_ps(b, first(n), a); }

  /// 2^n where the low bits of `shifted` hold n (ExpConstants::kRound was added).
  static V power_of_two(V shifted) {
    const __m512i bits = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(0x3F800000)));
  }

  /// Lanes added as (j, j + 8), (j, j + 4), (j, j + 2), (j, j + 1).
  static float sum(V v) {
    const __m256 high = _mm512_extractf32x8_ps(v, 1);
    return sum8(_mm256_add_ps(_mm512_castps512_ps256(v), high));
  }
  static float max_lane(V v) {
    const __m256 m8 = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
  }

  // Dwords of two bfloat16: the odd element is the high half, the even one the low half.
  static V load_dwords(const std::uint32_t* p) { return _mm512_loadu_ps(p); }
  static V broadcast(const std::uint32_t* p) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*p)));
  }
  static V odd(V dwords) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(dwords), _mm512_set1_epi32(-65536)));
  }
  static V even(V dwords) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(dwords), 16));
  }

  /// float_to_bf16 in the high half of each lane, zeros below.
  static V round_bf16(V v) {
    const __m512 flushed =
        _mm512_mul_ps(v, _mm512_set1_ps(1.0F));  // denormals to zero, NaN to quiet
    const __m512i bits = _mm512_castps_si512(flushed);
    const __m512i tie = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), tie);
    const __mmask16 nan = _mm512_cmp_ps_mask(flushed, flushed, _CMP_UNORD_Q);
    const __m512i chosen = _mm512_mask_mov_epi32(rounded, nan, bits);
    return _mm512_castsi512_ps(_mm512_and_si512(chosen, _mm512_set1_epi32(-65536)));
  }
  /// Dwords of two bfloat16, from the high halves of both.
  static void store_pair(std::uint32_t* p, V even, V odd) {
    const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even), 16);
    const __m512i high = _mm512_and_si512(_mm512_castps_si512(odd), _mm512_set1_epi32(-65536));
    _mm512_storeu_si512(p, _mm512_or_si512(high, low));
  }
  /// Stores the high halves of n lanes.
  static void store_high_halves(std::uint16_t* p, V v, int n) {
    const __m512i halves = _mm512_srli_epi32(_mm512_castps_si512(v), 16);
    _mm256_mask_storeu_epi16(p, first(n), _mm512_cvtepi32_epi16(halves));
  }
  static V load_bf16_first(const std::uint16_t* p, int n) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(n), p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }

 private:
  static float sum8(__m256 v) {
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
  }
};

}  // namespace
}  // namespace headrace
