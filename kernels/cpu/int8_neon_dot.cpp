#include "kernels/cpu/int8_neon.h"

namespace headrace {
namespace {

// The instruction for it, optional from ARMv8.2 on.
struct InstructionDot {
  [[gnu::always_inline]] static int32x4_t add(int32x4_t sums, int8x16_t weights, int8x16_t inputs) {
    return vdotq_s32(sums, weights, inputs);
  }
};

}  // namespace

const Int8Kernels& neon_dot_int8_kernels(DType compute_dtype) {
  return neon_int8_kernels_of<InstructionDot>(compute_dtype);
}

}  // namespace headrace
