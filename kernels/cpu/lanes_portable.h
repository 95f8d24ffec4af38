// Sixteen float32 lanes as an array: what runs where no instruction set has kernels of its own. See
// simd_math.h for why this is an unnamed namespace.
#pragma once

#include <cstdint>

#include "kernels/numeric.h"

namespace headrace {
namespace {

struct PortableLanes {
  struct V {
    float lane[16];
  };
  // Rows of a tile of one, two or four panels.
  static constexpr int kTileRows = 4;
  static constexpr int tile_rows(int panels) { return 4 / panels; }

  static V zero() { return {}; }
  static V set1(float x) {
    return map(zero(), [x](float) { return x; });
  }
  static V load(const float* p) { return load_first(p, 16); }
  static V load_first(const float* p, int n) {
    V v{};
    for (int i = 0; i < n; ++i) v.lane[i] = p[i];
    return v;
  }
  static V load_f16(const std::uint16_t* p) {
    V v{};
    for (int i = 0; i < 16; ++i) v.lane[i] = f16_to_float(p[i]);
    return v;
  }
  static V load_bytes(const std::uint8_t* p) {
    V v{};
    for (int i = 0; i < 16; ++i) v.lane[i] = static_cast<float>(p[i]);
    return v;
  }
  /// Of each dword the bits from Shift on, as far as Mask has them, as an integer.
  template <int Shift, std::uint32_t Mask>
  static V load_bits(const std::uint32_t* p) {
    V v{};
    for (int i = 0; i < 16; ++i) v.lane[i] = static_cast<float>(p[i] >> Shift & Mask);
    return v;
  }
  static void store(float* p, V v) { store_first(p, v, 16); }
  static void store_first(float* p, V v, int n) {
    for (int i = 0; i < n; ++i) p[i] = v.lane[i];
  }

  static V add(V a, V b) {
    return map(a, b, [](float x, float y) { return x + y; });
  }
  static V sub(V a, V b) {
    return map(a, b, [](float x, float y) { return x - y; });
  }
  static V mul(V a, V b) {
    return map(a, b, [](float x, float y) { return x * y; });
  }
  static V div(V a, V b) {
    return map(a, b, [](float x, float y) { return x / y; });
  }
  static V fma(V a, V b, V c) {
    for (int i = 0; i < 16; ++i) c.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return c;
  }
  static V sqrt(V a) {
    return map(a, [](float x) { return __builtin_sqrtf(x); });
  }
  static V min(V a, V b) {
    return map(a, b, [](float x, float y) { return x < y ? x : y; });
  }
  static V max(V a, V b) {
    return map(a, b, [](float x, float y) { return x > y ? x : y; });
  }
  static V negate(V a) {
    return map(a, [](float x) { return -x; });
  }

  /// Lanes below n of a, the others of b.
  static V select_first(int n, V a, V b) {
    for (int i = 0; i < n; ++i) b.lane[i] = a.lane[i];
    return b;
  }

  /// 2^n where the low bits of `shifted` hold n (ExpConstants::kRound was added).
  static V power_of_two(V shifted) {
    return map(shifted, [](float x) {
      return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) << 23) + 0x3F800000U);
    });
  }

  /// Lanes added as (j, j + 8), (j, j + 4), (j, j + 2), (j, j + 1).
  static float sum(V v) {
    for (int half = 8; half >= 1; half /= 2) {
      for (int j = 0; j < half; ++j) v.lane[j] += v.lane[j + half];
    }
    return v.lane[0];
  }
  static float max_lane(V v) {
    float m = v.lane[0];
    for (const float x : v.lane) m = m > x ? m : x;
    return m;
  }

  // Dwords of two bfloat16: the odd element is the high half, the even one the low half.
  static V load_dwords(const std::uint32_t* p) {
    V v{};
    for (int i = 0; i < 16; ++i) v.lane[i] = std::bit_cast<float>(p[i]);
    return v;
  }
  static V broadcast(const std::uint32_t* p) { return set1(std::bit_cast<float>(*p)); }
  static V odd(V dwords) {
    return map(dwords, [](float x) {
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFFFF0000U);
    });
  }
  static V even(V dwords) {
    return map(dwords,
               [](float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) << 16); });
  }

  /// float_to_bf16 in the high half of each lane, zeros below.
  static V round_bf16(V v) {
    return map(v, [](float x) { return round_to_bf16(x); });
  }
  /// Dwords of two bfloat16, from the high halves of both.
  static void store_pair(std::uint32_t* p, V even, V odd) {
    for (int i = 0; i < 16; ++i) {
      p[i] = std::bit_cast<std::uint32_t>(even.lane[i]) >> 16 |
             (std::bit_cast<std::uint32_t>(odd.lane[i]) & 0xFFFF0000U);
    }
  }
  /// Stores the high halves of n lanes.
  static void store_high_halves(std::uint16_t* p, V v, int n) {
    for (int i = 0; i < n; ++i) {
      p[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v.lane[i]) >> 16);
    }
  }
  static V load_bf16_first(const std::uint16_t* p, int n) {
    V v{};
    for (int i = 0; i < n; ++i) v.lane[i] = bf16_to_float(p[i]);
    return v;
  }

 private:
  template <class F>
  static V map(V a, F f) {
    for (float& x : a.lane) x = f(x);
    return a;
  }
  template <class F>
  static V map(V a, V b, F f) {
    for (int i = 0; i < 16; ++i) a.lane[i] = f(a.lane[i], b.lane[i]);
    return a;
  }
};

}  // namespace
}  // namespace headrace
