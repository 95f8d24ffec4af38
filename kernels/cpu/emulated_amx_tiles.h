// What amx_tiles.h says, register by register, with the same bits: for CPUs without tiles, and for
// tests on them. See simd_math.h for the unnamed namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/amx_tiles.h"

namespace headrace {
namespace {

// Denormals are flushed by whoever runs the kernel
// (flush_denormals.h).
class EmulatedAmxTiles {
 public:
  void configure(const AmxShapes& shapes) { shapes_ = shapes; }

  template <int T>
  void zero() {
    for (int m = 0; m < shapes_.rows[T]; ++m) write(T, m, _mm512_setzero_si512());
  }
  template <int T>
  void load(const void* from, std::int64_t stride = kAmxDwords) {
    const auto* row = static_cast<const std::uint32_t*>(from);
    for (int m = 0; m < shapes_.rows[T]; ++m, row += stride) {
      write(T, m, _mm512_maskz_loadu_epi32(mask(T), row));
    }
  }
  template <int T>
  void load_passing(const void* from, std::int64_t stride = kAmxDwords) {
    load<T>(from, stride);
  }
  template <int T>
  void store(void* to, std::int64_t stride = kAmxDwords) {
    auto* row = static_cast<std::uint32_t*>(to);
    for (int m = 0; m < shapes_.rows[T]; ++m, row += stride) {
      _mm512_mask_storeu_epi32(row, mask(T), read(T, m));
    }
  }
  template <int C, int A, int B>
  void add_bf16() {
    for (int m = 0; m < shapes_.rows[C]; ++m) {
      __m512 even = _mm512_setzero_ps();
      __m512 odd = _mm512_setzero_ps();
      for (int k = 0; k < shapes_.rows[B]; ++k) {
        const __m512i a = _mm512_set1_epi32(static_cast<int>(tiles_[A][m][k]));
        const __m512i b = read(B, k);
        even = _mm512_fmadd_ps(low_half(a), low_half(b), even);
        odd = _mm512_fmadd_ps(high_half(a), high_half(b), odd);
      }
      const __m512 sum = _mm512_add_ps(_mm512_castsi512_ps(read(C, m)), _mm512_add_ps(even, odd));
      write(C, m, _mm512_castps_si512(sum));
    }
  }
  template <int C, int A, int B>
  void add_int8() {
    for (int m = 0; m < shapes_.rows[C]; ++m) {
      __m512i sum = read(C, m);
      for (int k = 0; k < shapes_.rows[B]; ++k) {
        const __m512i a = _mm512_set1_epi32(static_cast<int>(tiles_[A][m][k]));
        const __m512i b = read(B, k);
        sum = _mm512_add_epi32(sum, byte_products<24>(a, b));
        sum = _mm512_add_epi32(sum, byte_products<16>(a, b));
        sum = _mm512_add_epi32(sum, byte_products<8>(a, b));
        sum = _mm512_add_epi32(sum, byte_products<0>(a, b));
      }
      write(C, m, sum);
    }
  }

 private:
  static __m512 low_half(__m512i dwords) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(dwords, 16));
  }
  static __m512 high_half(__m512i dwords) {
    return _mm512_castsi512_ps(_mm512_and_si512(dwords, _mm512_set1_epi32(-65536)));
  }
  // Of the signed bytes that are so many bits below the highest one.
  template <int Bits>
  static __m512i byte_products(__m512i a, __m512i b) {
    return _mm512_mullo_epi32(_mm512_srai_epi32(_mm512_slli_epi32(a, Bits), 24),
                              _mm512_srai_epi32(_mm512_slli_epi32(b, Bits), 24));
  }

  __mmask16 mask(int tile) const {
    return static_cast<__mmask16>((1U << (shapes_.row_bytes[tile] / 4)) - 1U);
  }
  __m512i read(int tile, int row) const { return _mm512_load_si512(tiles_[tile][row]); }
  void write(int tile, int row, __m512i v) { _mm512_store_si512(tiles_[tile][row], v); }

  AmxShapes shapes_;
  alignas(64) std::uint32_t tiles_[kNumAmxTiles][kAmxRows][kAmxDwords] = {};
};

}  // namespace
}  // namespace headrace
