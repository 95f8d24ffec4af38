// Denormal numbers count as zero while a backend computes. The bfloat16 dot product instruction of
// x86 works that way whatever the control register says, so every other way to the same bits
// (fused multiply-adds, the reference's loops) has to as well; it is also what keeps a matrix
// product over tiny numbers as fast as any other.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace headrace {

/// While one lives, the thread flushes denormal inputs and results to zero. Backends make one
/// around each task, so neither the pool's threads nor its caller need to know.
class FlushDenormals {
 public:
#if defined(__SSE2__)
  FlushDenormals() : saved_(_mm_getcsr()) {
    _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero);
    keep_arithmetic_inside();
  }
  ~FlushDenormals() {
    keep_arithmetic_inside();
    _mm_setcsr(saved_);
  }
#else
  FlushDenormals() = default;
  ~FlushDenormals() = default;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;

  // Operands come from memory and results go there, so a barrier on memory is one on arithmetic.
  static void keep_arithmetic_inside() {
    asm volatile("" ::: "memory");
  }

  unsigned saved_;
#endif
};

}  // namespace headrace
