// Sixteen float32 lanes in two AVX2 registers. See simd_math.h for why this is an unnamed
// namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace headrace {
namespace {

struct Avx2Lanes {
  struct V {
    __m256 low;
    __m256 high;
  };
  // Rows of a register tile of one, two or four panels: sums take 12 of 16 registers.
  static constexpr int kTileRows = 6;
  static constexpr int tile_rows(int panels) { return panels == 4 ? 1 : panels == 2 ? 3 : 6; }

  static V zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static V set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static V load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static V load_first(const float* p, int n) {
    return {_mm256_maskload_ps(p, mask(n, 0)), _mm256_maskload_ps(p + 8, mask(n, 8))};
  }
  static V load_f16(const std::uint16_t* p) {
    const auto* halves = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  static V load_bytes(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
  }
  /// Of each dword the bits from Shift on, as far as Mask has them, as an integer.
  template <int Shift, std::uint32_t Mask>
  static V load_bits(const std::uint32_t* p) {
    const auto bits8 = [](const std::uint32_t* from) {
      const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      const __m256i bits = _mm256_srli_epi32(all, Shift);
      return _mm256_cvtepi32_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(Mask))));
    };
    return {bits8(p), bits8(p + 8)};
  }
  static void store(float* p, V v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
  }
  static void store_first(float* p, V v, int n) {
    _mm256_maskstore_ps(p, mask(n, 0), v.low);
    _mm256_maskstore_ps(p + 8, mask(n, 8), v.high);
  }

  static V add(V a, V b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  static V sub(V a, V b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
  static V mul(V a, V b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
  static V div(V a, V b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
  static V fma(V a, V b, V c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static V sqrt(V a) { return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)}; }
  // a < b ? a : b and a > b ? a : b: the second operand where the first is no smaller or larger.
  static V min(V a, V b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
  static V max(V a, V b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
  static V negate(V a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
  }

  /// Lanes below n of a, the others of b.
  static V select_first(int n, V a, V b) {
    return {_mm256_blendv_ps(b.low, a.low, _mm256_castsi256_ps(mask(n, 0))),
            _mm256_blendv_ps(b.high, a.high, _mm256_castsi256_ps(mask(n, 8)))};
  }

  /// 2^n where the low bits of `shifted` hold n (ExpConstants::kRound was added).
  static V power_of_two(V shifted) { return {power8(shifted.low), power8(shifted.high)}; }

  /// Lanes added as (j, j + 8), (j, j + 4), (j, j + 2), (j, j + 1).
  static float sum(V v) {
    const __m256 s8 = _mm256_add_ps(v.low, v.high);
    const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
  }
  static float max_lane(V v) {
    const __m256 m8 = _mm256_max_ps(v.low, v.high);
    const __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    const __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
  }

  // Dwords of two bfloat16: the odd element is the high half, the even one the low half.
  static V load_dwords(const std::uint32_t* p) { return {dwords8(p), dwords8(p + 8)}; }
  static V broadcast(const std::uint32_t* p) {
    const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(*p)));
    return {all, all};
  }
  static V odd(V dwords) {
    const __m256 high_half = _mm256_castsi256_ps(_mm256_set1_epi32(-65536));
    return {_mm256_and_ps(dwords.low, high_half), _mm256_and_ps(dwords.high, high_half)};
  }
  static V even(V dwords) { return {even8(dwords.low), even8(dwords.high)}; }

  /// float_to_bf16 in the high half of each lane, zeros below.
  static V round_bf16(V v) { return {round8(v.low), round8(v.high)}; }
  /// Dwords of two bfloat16, from the high halves of both.
  static void store_pair(std::uint32_t* p, V even, V odd) {
    const auto pair8 = [](std::uint32_t* to, __m256 low, __m256 high) {
      const __m256i shifted = _mm256_srli_epi32(_mm256_castps_si256(low), 16);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm256_blend_epi16(shifted, _mm256_castps_si256(high), 0xAA));
    };
    pair8(p, even.low, odd.low);
    pair8(p + 8, even.high, odd.high);
  }
  /// Stores the high halves of n lanes.
  static void store_high_halves(std::uint16_t* p, V v, int n) {
    const __m256i low = _mm256_srli_epi32(_mm256_castps_si256(v.low), 16);
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(v.high), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
    if (n == 16) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
      return;
    }
    std::uint16_t all[16];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(all), packed);
    for (int i = 0; i < n; ++i) p[i] = all[i];
  }
  static V load_bf16_first(const std::uint16_t* p, int n) {
    if (n == 16) {
      const auto* halves = reinterpret_cast<const __m128i*>(p);
      return {wide8(_mm_loadu_si128(halves)), wide8(_mm_loadu_si128(halves + 1))};
    }
    std::uint16_t all[16] = {};
    for (int i = 0; i < n; ++i) all[i] = p[i];
    const auto* half = reinterpret_cast<const __m128i*>(all);
    return {wide8(_mm_loadu_si128(half)), wide8(_mm_loadu_si128(half + 1))};
  }

 private:
  // All ones in the lanes below n of the eight that start at lane `start`.
  static __m256i mask(int n, int start) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - start), lane);
  }
  static __m256 power8(__m256 shifted) {
    const __m256i bits = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(0x3F800000)));
  }
  static __m256 dwords8(const std::uint32_t* p) {
    return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static __m256 even8(__m256 v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v), 16));
  }
  static __m256 wide8(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static __m256 round8(__m256 v) {
    const __m256 flushed =
        _mm256_mul_ps(v, _mm256_set1_ps(1.0F));  // denormals to zero, NaN to quiet
    const __m256i bits = _mm256_castps_si256(flushed);
    const __m256i tie = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), tie);
    const __m256 nan = _mm256_cmp_ps(flushed, flushed, _CMP_UNORD_Q);
    const __m256 chosen = _mm256_blendv_ps(_mm256_castsi256_ps(rounded), flushed, nan);
    return _mm256_and_ps(chosen, _mm256_castsi256_ps(_mm256_set1_epi32(-65536)));
  }
};

}  // namespace
}  // namespace headrace
