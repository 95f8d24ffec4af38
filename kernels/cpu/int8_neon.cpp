#include "kernels/cpu/int8_neon.h"

namespace headrace {
namespace {

// On every 64-bit ARM: two products of bytes are at most 2 * 128 * 127 and fit an int16, so halves
// are added pairwise there before they widen.
struct WideningDot {
  [[gnu::always_inline]] static int32x4_t add(int32x4_t sums, int8x16_t weights, int8x16_t inputs) {
    const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(inputs));
    const int16x8_t high = vmull_high_s8(weights, inputs);
    return vpadalq_s16(sums, vpaddq_s16(low, high));
  }
};

}  // namespace

const Int8Kernels& neon_int8_kernels(DType compute_dtype) {
  return neon_int8_kernels_of<WideningDot>(compute_dtype);
}

}  // namespace headrace
