#include <immintrin.h>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/ops.h"
#include "kernels/peak.h"
#include "kernels/peak_loop.h"

namespace headrace {
namespace {

constexpr int kChains = 16;  // more than latency times rate of any x86 core

[[gnu::target("avx512f")]] void fma_512() {
  __m512 sums[kChains] = {};
  const __m512 half = _mm512_set1_ps(0.5F);
  for (int round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 16
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(sum, half, half);
      asm volatile("" : "+v"(sum));
    }
  }
}

[[gnu::target("avx2,fma")]] void fma_256() {
  __m256 sums[12] = {};
  const __m256 half = _mm256_set1_ps(0.5F);
  for (int round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 12
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(sum, half, half);
      asm volatile("" : "+x"(sum));
    }
  }
}

[[gnu::target("avx512f,avx512bf16")]] void dot_512() {
  __m512 sums[kChains] = {};
  const auto ones = (__m512bh)_mm512_set1_epi32(0x3F803F80);
  for (int round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 16
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, ones, ones);
      asm volatile("" : "+v"(sum));
    }
  }
}

[[gnu::target("avx512f,avx512vnni")]] void int8_dot_512() {
  __m512i sums[kChains] = {};
  const __m512i ones = _mm512_set1_epi8(1);
  for (int round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 16
    for (__m512i& sum : sums) asm volatile("vpdpbusd %1, %1, %0" : "+v"(sum) : "v"(ones));
  }
}

// Four sums of products of whole tiles: tiles 4 and 5 hold zeros.
enum class TileProduct { kBFloat16, kInt8 };
template <TileProduct P>
void tile_products() {
  AmxTiles tiles;
  AmxShapes shapes;
  for (int tile = 0; tile < kNumAmxTiles; ++tile) shapes.set(tile, kAmxRows);
  tiles.configure(shapes);
  tiles.zero<4>();
  tiles.zero<5>();
  for (int round = 0; round < kPeakRounds; ++round) {
    if constexpr (P == TileProduct::kBFloat16) {
      tiles.add_bf16<0, 4, 5>();
      tiles.add_bf16<1, 4, 5>();
      tiles.add_bf16<2, 4, 5>();
      tiles.add_bf16<3, 4, 5>();
    } else {
      tiles.add_int8<0, 4, 5>();
      tiles.add_int8<1, 4, 5>();
      tiles.add_int8<2, 4, 5>();
      tiles.add_int8<3, 4, 5>();
    }
  }
}

// Multiply-adds of a round, dwords of one element each.
constexpr double kTileFlops = 2.0 * 4 * kAmxRows * kAmxDwords * kAmxDwords;

}  // namespace

double measure_fma_peak() {
  if (__builtin_cpu_supports("avx512f")) return measure_peak(kChains * 32, fma_512);
  if (__builtin_cpu_supports("avx2")) return measure_peak(12 * 16, fma_256);
  return 0.0;
}

double measure_bf16_peak() {
  if (cpu_has("amx")) return measure_peak(2 * kTileFlops, tile_products<TileProduct::kBFloat16>);
  if (!__builtin_cpu_supports("avx512bf16")) return 0.0;
  return measure_peak(kChains * 64, dot_512);
}

double measure_int8_peak() {
  if (cpu_has("amx")) return measure_peak(4 * kTileFlops, tile_products<TileProduct::kInt8>);
  if (!__builtin_cpu_supports("avx512vnni")) return 0.0;
  return measure_peak(kChains * 128, int8_dot_512);
}

}  // namespace headrace
