#include "kernels/cpu/lanes_portable.h"
#include "kernels/cpu/simd_attention_int8.h"

namespace headrace {
namespace {

struct PortableInt8 {
  using Lanes = PortableLanes;
  struct I {
    std::int32_t lane[16];
  };
  static constexpr int kElements = 4;
  static constexpr int kDwordsPerStep = 1;
  static constexpr bool kOffset = false;

  static I start(const std::int32_t& /*offset*/) { return {}; }
  static Lanes::V to_float(I sums) {
    Lanes::V v{};
    for (int i = 0; i < 16; ++i) v.lane[i] = static_cast<float>(sums.lane[i]);
    return v;
  }

  static std::int32_t byte_of(std::uint32_t dword, int i) {
    return static_cast<std::int8_t>(dword >> (8 * i));
  }

  template <class Rows, int MR, int NV>
  static void step(IntegerSums<PortableInt8, MR, NV>& sums, const std::uint32_t* a,
                   const std::uint32_t* const (&w)[NV], std::int64_t at) {
    for (int m = 0; m < MR; ++m) {
      const std::uint32_t input = a[m * Rows::kRowStride];
      for (int v = 0; v < NV; ++v) {
        for (int lane = 0; lane < 16; ++lane) {
          const std::uint32_t weight = w[v][at + lane] ^ 0x80808080U;
          for (int i = 0; i < 4; ++i) {
            sums.at[m][v].lane[lane] += byte_of(input, i) * byte_of(weight, i);
          }
        }
      }
    }
  }

  /// Sixteen values, rounded to integers, as the inputs of four steps; gives their sum.
  static std::int32_t store_inputs(std::uint32_t* out, Lanes::V v) {
    std::int32_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      std::uint32_t dword = 0;
      for (int j = 0; j < 4; ++j) {
        // What is not finite has a scale that says so; the integer does not matter.
        const float x = v.lane[4 * i + j];
        const auto rounded = x == x ? static_cast<std::int32_t>(__builtin_nearbyintf(x)) : 0;
        sum += rounded;
        dword |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(rounded)) << (8 * j);
      }
      out[i] = dword;
    }
    return sum;
  }
};

struct PortableInt4 : PortableInt8 {
  static constexpr int kElements = 8;
  static constexpr int kDwordsPerStep = 2;

  template <class Rows, int MR, int NV>
  static void step(IntegerSums<PortableInt4, MR, NV>& sums, const std::uint32_t* a,
                   const std::uint32_t* const (&w)[NV], std::int64_t at) {
    for (int m = 0; m < MR; ++m) {
      const std::uint32_t* inputs = a + m * Rows::kRowStride;
      for (int v = 0; v < NV; ++v) {
        for (int lane = 0; lane < 16; ++lane) {
          const std::uint32_t weight = w[v][at + lane];
          for (int i = 0; i < 8; ++i) {
            const auto integer =
                static_cast<std::int32_t>(weight >> (i % 4 * 8 + i / 4 * 4) & 0xFU);
            sums.at[m][v].lane[lane] += byte_of(inputs[i / 4], i % 4) * integer;
          }
        }
      }
    }
  }
};

constexpr Int8Kernels kFloat32 =
    make_int8_kernels<Float32Format<PortableLanes>, PortableInt8, PortableInt4>();
constexpr Int8Kernels kBFloat16 =
    make_int8_kernels<SplitBf16Format<PortableLanes>, PortableInt8, PortableInt4>();

}  // namespace

const Int8Kernels& portable_int8_kernels(DType compute_dtype) {
  return compute_dtype == DType::kBFloat16 ? kBFloat16 : kFloat32;
}

}  // namespace headrace
