// Integer products on NEON, by a `Dot` that adds to four int32 sums the products of four signed
// bytes each:
//   static int32x4_t add(int32x4_t sums, int8x16_t weights, int8x16_t inputs)
// with weights from -128 to 127 and inputs from -127 to 127. See simd_math.h for the unnamed
// namespace.
#pragma once

#include "kernels/cpu/lanes_neon.h"
#include "kernels/cpu/simd_attention_int8.h"

namespace headrace {
namespace {

template <class Dot>
struct NeonInt8 {
  using Lanes = NeonLanes;
  struct I {
    int32x4_t part[4];
  };
  static constexpr int kElements = 4;
  static constexpr int kDwordsPerStep = 1;
  static constexpr bool kOffset = false;

  static I start(const std::int32_t& /*offset*/) {
    const int32x4_t zero = vdupq_n_s32(0);
    return {{zero, zero, zero, zero}};
  }
  static Lanes::V to_float(I sums) {
    Lanes::V v;
    for (int i = 0; i < 4; ++i) v.part[i] = vcvtq_f32_s32(sums.part[i]);
    return v;
  }

  template <class Rows, int MR, int NV>
  [[gnu::always_inline]] static void step(IntegerSums<NeonInt8, MR, NV>& sums,
                                          const std::uint32_t* a,
                                          const std::uint32_t* const (&w)[NV], std::int64_t at) {
    Columns columns[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      for (int i = 0; i < 4; ++i) {
        columns[v].part[i] =
            vreinterpretq_s8_u8(veorq_u8(bytes(w[v] + at + 4 * i), vdupq_n_u8(0x80)));
      }
    }
    add_products<Rows>(sums, a, columns);
  }

  /// Sixteen values, rounded to integers, as the inputs of four steps; gives their sum.
  static std::int32_t store_inputs(std::uint32_t* out, Lanes::V v) {
    int16x4_t halves[4];
    for (int i = 0; i < 4; ++i) halves[i] = vqmovn_s32(vcvtnq_s32_f32(v.part[i]));
    const int8x16_t all = vcombine_s8(vqmovn_s16(vcombine_s16(halves[0], halves[1])),
                                      vqmovn_s16(vcombine_s16(halves[2], halves[3])));
    vst1q_u32(out, vreinterpretq_u32_s8(all));
    return vaddlvq_s8(all);
  }

 protected:
  struct Columns {
    int8x16_t part[4];
  };

  // Q: the format whose sums they are.
  template <class Rows, class Q, int MR, int NV>
  [[gnu::always_inline]] static void add_products(IntegerSums<Q, MR, NV>& sums,
                                                  const std::uint32_t* input_of_row0,
                                                  const Columns (&columns)[NV]) {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const int8x16_t input =
          vreinterpretq_s8_u32(vld1q_dup_u32(input_of_row0 + m * Rows::kRowStride));
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          int32x4_t& sum = sums.at[m][v].part[i];
          sum = Dot::add(sum, columns[v].part[i], input);
        }
      }
    }
  }

  static uint8x16_t bytes(const std::uint32_t* p) {
    return vreinterpretq_u8_u32(vld1q_u32(p));
  }
};

// Steps of eight: the low halves of the bytes, then the high ones.
template <class Dot>
struct NeonInt4 : NeonInt8<Dot> {
  using Base = NeonInt8<Dot>;
  static constexpr int kElements = 8;
  static constexpr int kDwordsPerStep = 2;

  template <class Rows, int MR, int NV>
  [[gnu::always_inline]] static void step(IntegerSums<NeonInt4, MR, NV>& sums,
                                          const std::uint32_t* a,
                                          const std::uint32_t* const (&w)[NV], std::int64_t at) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, ++a) {
      typename Base::Columns columns[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        for (int i = 0; i < 4; ++i) {
          columns[v].part[i] = half_bytes(w[v] + at + 4 * i, half);
        }
      }
      Base::template add_products<Rows>(sums, a, columns);
    }
  }

 private:
  static int8x16_t half_bytes(const std::uint32_t* p, int half) {
    const uint8x16_t both = Base::bytes(p);
    return vreinterpretq_s8_u8(half == 0 ? vandq_u8(both, vdupq_n_u8(0x0F)) : vshrq_n_u8(both, 4));
  }
};

template <class Dot>
const Int8Kernels& neon_int8_kernels_of(DType compute_dtype) {
  static constexpr Int8Kernels kFloat32 =
      make_int8_kernels<Float32Format<NeonLanes>, NeonInt8<Dot>, NeonInt4<Dot>>();
  static constexpr Int8Kernels kBFloat16 =
      make_int8_kernels<SplitBf16Format<NeonLanes>, NeonInt8<Dot>, NeonInt4<Dot>>();
  return compute_dtype == DType::kBFloat16 ? kBFloat16 : kFloat32;
}

}  // namespace
}  // namespace headrace
