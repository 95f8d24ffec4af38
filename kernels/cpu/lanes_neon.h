// Sixteen float32 lanes in four NEON registers. See simd_math.h for why this is an unnamed
// namespace.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace headrace {
namespace {

struct NeonLanes {
  struct V {
    float32x4_t part[4];
  };
  // Rows of a register tile of one, two or four panels: sums take 24, 16 or 16 of 32 registers.
  static constexpr int kTileRows = 6;
  static constexpr int tile_rows(int panels) { return panels == 4 ? 1 : panels == 2 ? 2 : 6; }

  static V zero() { return set1(0.0F); }
  static V set1(float x) {
    const float32x4_t all = vdupq_n_f32(x);
    return {{all, all, all, all}};
  }
  static V load(const float* p) {
    return {{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
  }
  static V load_first(const float* p, int n) {
    if (n == 16) return load(p);
    float all[16] = {};
    for (int i = 0; i < n; ++i) all[i] = p[i];
    return load(all);
  }
  static V load_f16(const std::uint16_t* p) {
    V v;
    for (int i = 0; i < 4; ++i) {
      v.part[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
    }
    return v;
  }
  static V load_bytes(const std::uint8_t* p) {
    const uint8x16_t bytes = vld1q_u8(p);
    const uint16x8_t low = vmovl_u8(vget_low_u8(bytes));
    const uint16x8_t high = vmovl_high_u8(bytes);
    return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_high_u16(low)),
             vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_high_u16(high))}};
  }
  /// Of each dword the bits from Shift on, as far as Mask has them, as an integer.
  template <int Shift, std::uint32_t Mask>
  static V load_bits(const std::uint32_t* p) {
    V v;
    for (int i = 0; i < 4; ++i) {
      const uint32x4_t bits = vshlq_u32(vld1q_u32(p + 4 * i), vdupq_n_s32(-Shift));
      v.part[i] = vcvtq_f32_u32(vandq_u32(bits, vdupq_n_u32(Mask)));
    }
    return v;
  }
  static void store(float* p, V v) {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, v.part[i]);
  }
  static void store_first(float* p, V v, int n) {
    if (n == 16) return store(p, v);
    float all[16];
    store(all, v);
    for (int i = 0; i < n; ++i) p[i] = all[i];
  }

  static V add(V a, V b) {
    return each(a, b, [](float32x4_t x, float32x4_t y) { return vaddq_f32(x, y); });
  }
  static V sub(V a, V b) {
    return each(a, b, [](float32x4_t x, float32x4_t y) { return vsubq_f32(x, y); });
  }
  static V mul(V a, V b) {
    return each(a, b, [](float32x4_t x, float32x4_t y) { return vmulq_f32(x, y); });
  }
  static V div(V a, V b) {
    return each(a, b, [](float32x4_t x, float32x4_t y) { return vdivq_f32(x, y); });
  }
  static V fma(V a, V b, V c) {
    for (int i = 0; i < 4; ++i) c.part[i] = vfmaq_f32(c.part[i], a.part[i], b.part[i]);
    return c;
  }
  static V sqrt(V a) {
    return each(a, [](float32x4_t x) { return vsqrtq_f32(x); });
  }
  // a < b ? a : b and a > b ? a : b, unlike the instructions of that name where one is not a
  // number.
  static V min(V a, V b) {
    return each(a, b,
                [](float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); });
  }
  static V max(V a, V b) {
    return each(a, b,
                [](float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); });
  }
  static V negate(V a) {
    return each(a, [](float32x4_t x) { return vnegq_f32(x); });
  }

  /// Lanes below n of a, the others of b.
  static V select_first(int n, V a, V b) {
    const uint32x4_t lane = {0, 1, 2, 3};
    for (int i = 0; i < 4; ++i) {
      const auto left = static_cast<std::uint32_t>(n > 4 * i ? n - 4 * i : 0);
      b.part[i] = vbslq_f32(vcltq_u32(lane, vdupq_n_u32(left)), a.part[i], b.part[i]);
    }
    return b;
  }

  /// 2^n where the low bits of `shifted` hold n (ExpConstants::kRound was added).
  static V power_of_two(V shifted) {
    return each(shifted, [](float32x4_t x) {
      const uint32x4_t bits = vshlq_n_u32(vreinterpretq_u32_f32(x), 23);
      return vreinterpretq_f32_u32(vaddq_u32(bits, vdupq_n_u32(0x3F800000)));
    });
  }

  /// Lanes added as (j, j + 8), (j, j + 4), (j, j + 2), (j, j + 1).
  static float sum(V v) {
    const float32x4_t s4 =
        vaddq_f32(vaddq_f32(v.part[0], v.part[2]), vaddq_f32(v.part[1], v.part[3]));
    const float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
  }
  static float max_lane(V v) {
    float all[16];
    store(all, v);
    float m = all[0];
    for (const float x : all) m = m > x ? m : x;
    return m;
  }

  // Dwords of two bfloat16: the odd element is the high half, the even one the low half.
  static V load_dwords(const std::uint32_t* p) {
    V v;
    for (int i = 0; i < 4; ++i) v.part[i] = vreinterpretq_f32_u32(vld1q_u32(p + 4 * i));
    return v;
  }
  static V broadcast(const std::uint32_t* p) {
    const float32x4_t all = vreinterpretq_f32_u32(vld1q_dup_u32(p));
    return {{all, all, all, all}};
  }
  static V odd(V dwords) {
    return each(dwords, [](float32x4_t x) {
      return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0xFFFF0000U)));
    });
  }
  static V even(V dwords) {
    return each(dwords, [](float32x4_t x) {
      return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x), 16));
    });
  }

  /// float_to_bf16 in the high half of each lane, zeros below.
  static V round_bf16(V v) {
    return each(v, [](float32x4_t x) { return round4(x); });
  }
  /// Dwords of two bfloat16, from the high halves of both.
  static void store_pair(std::uint32_t* p, V even, V odd) {
    for (int i = 0; i < 4; ++i) {
      const uint32x4_t low = vshrq_n_u32(vreinterpretq_u32_f32(even.part[i]), 16);
      const uint32x4_t high = vreinterpretq_u32_f32(odd.part[i]);
      vst1q_u32(p + 4 * i, vsliq_n_u32(low, vshrq_n_u32(high, 16), 16));
    }
  }
  /// Stores the high halves of n lanes.
  static void store_high_halves(std::uint16_t* p, V v, int n) {
    const uint16x8_t low = high_halves(v.part[0], v.part[1]);
    const uint16x8_t high = high_halves(v.part[2], v.part[3]);
    if (n == 16) {
      vst1q_u16(p, low);
      vst1q_u16(p + 8, high);
      return;
    }
    std::uint16_t all[16];
    vst1q_u16(all, low);
    vst1q_u16(all + 8, high);
    for (int i = 0; i < n; ++i) p[i] = all[i];
  }
  static V load_bf16_first(const std::uint16_t* p, int n) {
    std::uint16_t all[16] = {};
    if (n < 16) {
      for (int i = 0; i < n; ++i) all[i] = p[i];
      p = all;
    }
    V v;
    for (int i = 0; i < 4; ++i) {
      v.part[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16));
    }
    return v;
  }

 private:
  template <class F>
  [[gnu::always_inline]] static V each(V a, F f) {
    for (float32x4_t& x : a.part) x = f(x);
    return a;
  }
  template <class F>
  [[gnu::always_inline]] static V each(V a, V b, F f) {
    for (int i = 0; i < 4; ++i) a.part[i] = f(a.part[i], b.part[i]);
    return a;
  }
  static uint16x8_t high_halves(float32x4_t low, float32x4_t high) {
    return vcombine_u16(vshrn_n_u32(vreinterpretq_u32_f32(low), 16),
                        vshrn_n_u32(vreinterpretq_u32_f32(high), 16));
  }
  static float32x4_t round4(float32x4_t x) {
    const float32x4_t flushed = vmulq_f32(x, vdupq_n_f32(1.0F));  // denormals to zero, NaN to quiet
    const uint32x4_t bits = vreinterpretq_u32_f32(flushed);
    const uint32x4_t tie = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), tie);
    const uint32x4_t number = vceqq_f32(flushed, flushed);
    return vreinterpretq_f32_u32(
        vandq_u32(vbslq_u32(number, rounded, bits), vdupq_n_u32(0xFFFF0000U)));
  }
};

}  // namespace
}  // namespace headrace
