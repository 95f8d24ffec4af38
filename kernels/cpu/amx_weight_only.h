// Products of bfloat16 inputs with int8 and int4 weights by tiles (W8A16, W4A16). Some panels of
// weights become bfloat16 in the thread's own memory, once for all blocks of rows; from there on
// the product is one of bfloat16 (amx_gemm.h). An int4 weight becomes its value, rounded; an int8
// weight its integer, and sums are scaled where slices end. Bound by the tiles from some 100 rows
// on, by expanding below. See simd_math.h for the unnamed namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/amx_gemm.h"
#include "kernels/cpu/simd_weight_only.h"

namespace headrace {
namespace {

// How two registers of float32 become one of bfloat16, rounded to nearest even: by the instruction,
// which every CPU with tiles of bfloat16 has, or with the same bits without it.
struct Bf16Instruction {
  static __m512i round(__m512 low, __m512 high) {
    __m512i rounded;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(rounded) : "v"(low), "v"(high));
    return rounded;
  }
};
struct EmulatedBf16Instruction {
  static __m512i round(__m512 low, __m512 high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(high_halves(low)), high_halves(high), 1);
  }

 private:
  static __m256i high_halves(__m512 v) {
    const __m512i rounded = _mm512_castps_si512(Avx512Lanes::round_bf16(v));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
  }
};

// Sixteen columns as eight pairs of lanes, twice: a lane for either element of a dword of two.
struct AmxColumnPairs {
  __m512i low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  __m512i high = _mm512_setr_epi32(8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);

  __m512i of(__m512i columns, int half) const {
    return _mm512_permutexvar_epi32(half == 0 ? low : high, columns);
  }
  __m512 of(__m512 columns, int half) const {
    return _mm512_permutexvar_ps(half == 0 ? low : high, columns);
  }
};

// Panels of W as bfloat16, slices filled up with zeros to whole tiles.
template <Quantization W, class Rounding>
class AmxExpansion {
  using L = Avx512Lanes;
  using Bits = ElementBits<W>;

 public:
  static constexpr int kPieceSteps = kExpandedElements / Bits::kElements;

  explicit AmxExpansion(const GemmArgs& g) : g_(g) {
    for (int p = 0; p < kPairs; ++p) {
      turns_[p] = _mm512_set1_epi64(static_cast<long long>(turn(2 * p + 1)) << 32 | turn(2 * p));
    }
  }

  void expand(std::int64_t panel, std::uint32_t* out) const {
    const std::uint32_t* const from = g_.weights + panel * g_.steps * kPanelColumns;
    std::int64_t scales = panel * kPanelColumns;  // of the group at hand, where groups have any
    for (int s = 0; s < g_.num_segments; ++s) {
      const Segment& slice = g_.segments[s];
      for (std::int64_t step = slice.begin; step < slice.end; step += kPieceSteps) {
        const Columns columns = columns_at(scales);
        scales += g_.column_stride;
        const std::int64_t left = slice.end - step;
        if (left >= kPieceSteps) {
#pragma GCC unroll 8
          for (int i = 0; i < kPieceSteps; ++i) {
            expand_step(out + i * kStepDwords, from + (step + i) * kPanelColumns, columns);
          }
        } else {
          expand_some(out, from + step * kPanelColumns, columns, left);
        }
        out += kPieceSteps * kStepDwords;
      }
    }
  }

 private:
  static constexpr int kPairs = Bits::kElements / 2;
  static constexpr int kStepDwords = kPairs * kPanelColumns;  // that a step becomes

  // Below the leading one of kOne, an element of so many bits adds its value.
  static constexpr int kElementBits = Bits::kInt4 ? 4 : 8;
  static constexpr float kOne = 1 << kElementBits;
  static constexpr int kPlace = 23 - kElementBits;

  // To the left, so that element i comes to its place.
  static constexpr std::uint32_t turn(int i) {
    return static_cast<std::uint32_t>(kPlace - Bits::shift(i)) & 31U;
  }

  // An element is what stands in its place times scale, less the rest, rounded once: scales of
  // eleven bits and zero points of eight leave every product exact.
  struct Columns {
    L::V scale[2];
    L::V less[2];
  };
  Columns columns_at(std::int64_t at) const {
    Columns columns;
    if constexpr (Bits::kInt4) {
      const L::V scale = L::load_f16(g_.column_scales16 + at);
      const L::V zero = L::load_bytes(g_.column_zeros + at);
      const L::V less = L::mul(L::fma(zero, L::set1(0.0625F), L::set1(kOne)), scale);
      for (int half = 0; half < 2; ++half) {
        columns.scale[half] = pairs_.of(scale, half);
        columns.less[half] = pairs_.of(less, half);
      }
    } else {
      for (int half = 0; half < 2; ++half) columns.less[half] = L::set1(kOne + 128.0F);
    }
    return columns;
  }

  [[gnu::always_inline]] void expand_step(std::uint32_t* out, const std::uint32_t* dwords,
                                          const Columns& columns) const {
    const __m512i place = _mm512_set1_epi32(static_cast<int>(Bits::kMask << kPlace));
    const __m512i one = _mm512_castps_si512(L::set1(kOne));
    const __m512i both = _mm512_loadu_si512(dwords);
    const __m512i halves[2] = {pairs_.of(both, 0), pairs_.of(both, 1)};
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      L::V values[2];
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        constexpr int kFirstAndSecondOrThird = 0xEA;
        const __m512i bits = _mm512_ternarylogic_epi32(_mm512_rolv_epi32(halves[half], turns_[p]),
                                                       place, one, kFirstAndSecondOrThird);
        const L::V value = _mm512_castsi512_ps(bits);
        values[half] = Bits::kInt4 ? _mm512_fmsub_ps(value, columns.scale[half], columns.less[half])
                                   : L::sub(value, columns.less[half]);
      }
      _mm512_store_si512(out + p * kPanelColumns, Rounding::round(values[0], values[1]));
    }
  }

  // A piece of which only so many steps are there.
  void expand_some(std::uint32_t* out, const std::uint32_t* dwords, const Columns& columns,
                   std::int64_t steps) const {
    for (int i = 0; i < kPieceSteps; ++i, out += kStepDwords, dwords += kPanelColumns) {
      if (i < steps) {
        expand_step(out, dwords, columns);
      } else {
        __builtin_memset(out, 0, kStepDwords * sizeof(std::uint32_t));
      }
    }
  }

  const GemmArgs& g_;
  AmxColumnPairs pairs_;
  __m512i turns_[kPairs];
};

// Panels that blocks read where they are expanded (AmxStoredPanels).
template <Quantization W, class Rounding>
class AmxExpandedPanels {
  using Expansion = AmxExpansion<W, Rounding>;

 public:
  explicit AmxExpandedPanels(const GemmArgs& g) : stored_(g), expansion_(g), product_(g) {
    product_.segments = g.expanded_segments;
    product_.steps = g.expanded_segments[g.num_segments - 1].end;
    if (W == Quantization::kInt4) product_.column_scales = nullptr;  // groups had theirs
  }

  const GemmArgs& product() const { return product_; }

  template <int NV>
  const std::uint32_t* take(std::int64_t panel) const {
    for (int v = 0; v < NV; ++v) {
      expansion_.expand(panel + v, stored_.expanded + v * product_.steps * kPanelColumns);
    }
    return stored_.expanded;
  }

  // Of the next panels' integers, each block its part.
  template <int NV>
  const std::uint32_t* fetched(const AmxBlockOrder& order, std::int64_t panel,
                               std::int64_t block) const {
    const std::int64_t lines = NV * stored_.steps;
    const std::int64_t line = panel * stored_.steps + lines + block * lines / order.count();
    return stored_.weights + line * kPanelColumns;
  }
  template <int NV>
  int fetched_each(const AmxBlockOrder& order) const {
    return static_cast<int>(order.fetched_each(NV * Expansion::kPieceSteps));
  }

 private:
  const GemmArgs& stored_;
  Expansion expansion_;
  GemmArgs product_;
};

template <class Tiles, class Rounding, Quantization W>
void amx_weight_only_gemm(const GemmArgs& g) {
  AmxGemm<Tiles, AmxExpandedPanels<W, Rounding>>(g).run();
}

}  // namespace
}  // namespace headrace
