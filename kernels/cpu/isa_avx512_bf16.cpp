#include "kernels/cpu/lanes_avx512.h"
#include "kernels/cpu/simd_table.h"

namespace headrace {
namespace {

// bfloat16 by the dot product instruction: per lane, the odd products first, then the even ones,
// two fused multiply-adds that round to nearest even and flush denormals.
struct DotBf16Format : PairedBf16Format<Avx512Lanes> {
  template <class Rows, int MR, int NV>
  [[gnu::always_inline]] static void step(Accumulators<Avx512Lanes, MR, NV>& acc,
                                          const std::uint32_t* a,
                                          const std::uint32_t* const (&w)[NV], std::int64_t at) {
    __m512bh columns[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) columns[v] = (__m512bh)_mm512_loadu_ps(w[v] + at);
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const auto operand = (__m512bh)_mm512_set1_epi32(static_cast<int>(a[m * Rows::kRowStride]));
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        acc.at[m][v] = _mm512_dpbf16_ps(acc.at[m][v], operand, columns[v]);
      }
    }
  }
};

constexpr KernelTable kBFloat16 = make_kernel_table<DotBf16Format>("avx512_bf16");

}  // namespace

const KernelTable& avx512_bf16_kernels() {
  return kBFloat16;
}

}  // namespace headrace
