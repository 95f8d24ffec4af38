#include "kernels/cpu/lanes_avx2.h"
#include "kernels/cpu/simd_attention_int8.h"

namespace headrace {
namespace {

// Exact with 16-bit products: vpmaddubsw, the byte instruction, would saturate. Of four elements
// the even ones (0, 2) and the odd ones (1, 3) are widened and taken as pairs; inputs are packed as
// two dwords of such pairs.
struct Avx2Int8 {
  using Lanes = Avx2Lanes;
  struct I {
    __m256i low;
    __m256i high;
  };
  static constexpr int kElements = 4;
  static constexpr int kDwordsPerStep = 2;
  static constexpr bool kOffset = false;

  static I start(const std::int32_t& /*offset*/) {
    return {_mm256_setzero_si256(), _mm256_setzero_si256()};
  }
  static Lanes::V to_float(I sums) {
    return {_mm256_cvtepi32_ps(sums.low), _mm256_cvtepi32_ps(sums.high)};
  }

  template <class Rows, int MR, int NV>
  [[gnu::always_inline]] static void step(IntegerSums<Avx2Int8, MR, NV>& sums,
                                          const std::uint32_t* a,
                                          const std::uint32_t* const (&w)[NV], std::int64_t at) {
    I columns[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v)
      columns[v] = {even8(bytes(w[v] + at)), even8(bytes(w[v] + at + 8))};
    add_pairs<Rows>(sums, a, columns);
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) columns[v] = {odd8(bytes(w[v] + at)), odd8(bytes(w[v] + at + 8))};
    add_pairs<Rows>(sums, a + 1, columns);
  }

  /// Sixteen values, rounded to integers, as the inputs of four steps; gives their sum.
  static std::int32_t store_inputs(std::uint32_t* out, Lanes::V v) {
    const __m256i packed =
        _mm256_packs_epi32(_mm256_cvtps_epi32(v.low), _mm256_cvtps_epi32(v.high));
    const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xD8);
    // Within each four: 0, 2, 1, 3.
    const __m256i pairs = _mm256_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15, 0,
                                           1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_shuffle_epi8(ordered, pairs));
    return sum(packed);
  }

 protected:
  // Q: the format whose sums they are.
  template <class Rows, class Q, int MR, int NV>
  [[gnu::always_inline]] static void add_pairs(IntegerSums<Q, MR, NV>& sums,
                                               const std::uint32_t* pair_of_row0,
                                               const I (&columns)[NV]) {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const __m256i pair = _mm256_set1_epi32(static_cast<int>(pair_of_row0[m * Rows::kRowStride]));
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        I& sum = sums.at[m][v];
        sum.low = _mm256_add_epi32(sum.low, _mm256_madd_epi16(columns[v].low, pair));
        sum.high = _mm256_add_epi32(sum.high, _mm256_madd_epi16(columns[v].high, pair));
      }
    }
  }

  static std::int32_t sum(__m256i words) {
    const __m256i s8 = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
    const __m128i s4 = _mm_add_epi32(_mm256_castsi256_si128(s8), _mm256_extracti128_si256(s8, 1));
    const __m128i s2 = _mm_add_epi32(s4, _mm_unpackhi_epi64(s4, s4));
    return _mm_cvtsi128_si32(_mm_add_epi32(s2, _mm_shuffle_epi32(s2, 1)));
  }

  static __m256i bytes(const std::uint32_t* p) {
    const __m256i offset = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_xor_si256(offset, _mm256_set1_epi8(-128));
  }
  static __m256i even8(__m256i bytes) {
    return _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
  }
  static __m256i odd8(__m256i bytes) {
    return _mm256_srai_epi16(bytes, 8);
  }
};

// Steps of eight: the low halves of the bytes, then the high ones, each as above.
struct Avx2Int4 : Avx2Int8 {
  static constexpr int kElements = 8;
  static constexpr int kDwordsPerStep = 4;

  template <class Rows, int MR, int NV>
  [[gnu::always_inline]] static void step(IntegerSums<Avx2Int4, MR, NV>& sums,
                                          const std::uint32_t* a,
                                          const std::uint32_t* const (&w)[NV], std::int64_t at) {
    I columns[NV];
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, a += 2) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        columns[v] = {even8(half_bytes(w[v] + at, half)), even8(half_bytes(w[v] + at + 8, half))};
      }
      add_pairs<Rows>(sums, a, columns);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        columns[v] = {odd8(half_bytes(w[v] + at, half)), odd8(half_bytes(w[v] + at + 8, half))};
      }
      add_pairs<Rows>(sums, a + 1, columns);
    }
  }

 private:
  static __m256i half_bytes(const std::uint32_t* p, int half) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i one = half == 0 ? both : _mm256_srli_epi32(both, 4);
    return _mm256_and_si256(one, _mm256_set1_epi8(0x0F));
  }
};

constexpr Int8Kernels kFloat32 = make_int8_kernels<Float32Format<Avx2Lanes>, Avx2Int8, Avx2Int4>();
constexpr Int8Kernels kBFloat16 =
    make_int8_kernels<SplitBf16Format<Avx2Lanes>, Avx2Int8, Avx2Int4>();

}  // namespace

const Int8Kernels& avx2_int8_kernels(DType compute_dtype) {
  return compute_dtype == DType::kBFloat16 ? kBFloat16 : kFloat32;
}

}  // namespace headrace
