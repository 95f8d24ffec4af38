#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "kernels/peak.h"
#include "kernels/peak_loop.h"

namespace headrace {
namespace {

constexpr int kChains = 24;  // more than latency times rate of any ARM core

void fma_128() {
  float32x4_t sums[kChains] = {};
  const float32x4_t half = vdupq_n_f32(0.5F);
  for (int round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 24
    for (float32x4_t& sum : sums) {
      sum = vfmaq_f32(half, sum, half);
      asm volatile("" : "+w"(sum));
    }
  }
}

[[gnu::target("arch=armv8.2-a+dotprod")]] void int8_dot_128() {
  int32x4_t sums[kChains] = {};
  const int8x16_t ones = vdupq_n_s8(1);
  for (int round = 0; round < kPeakRounds; ++round) {
#pragma GCC unroll 24
    for (int32x4_t& sum : sums) asm volatile("sdot %0.4s, %1.16b, %1.16b" : "+w"(sum) : "w"(ones));
  }
}

}  // namespace

double measure_fma_peak() {
  return measure_peak(kChains * 8, fma_128);
}

// Nothing here takes products of bfloat16 by an instruction of their own: its sums round otherwise.
double measure_bf16_peak() {
  return 0.0;
}

double measure_int8_peak() {
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) == 0) return 0.0;
  return measure_peak(kChains * 32, int8_dot_128);
}

}  // namespace headrace
