// Denormal numbers count as zero while a backend computes. The bfloat16 dot product instruction of
// x86 works that way whatever the control register says, so every other way to the same bits
// (fused multiply-adds, the reference's loops) has to as well; it is also what keeps a matrix
// product over tiny numbers as fast as any other.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace headrace {

namespace floating_point_mode {

// The thread's control register, and its bits that make denormal inputs and results count as zero.
#if defined(__SSE2__)
using Bits = unsigned;
inline constexpr Bits kFlush = 0x8000 | 0x0040;
inline Bits get() {
  return _mm_getcsr();
}
inline void set(Bits bits) {
  _mm_setcsr(bits);
}
#elif defined(__aarch64__)
using Bits = std::uint64_t;
inline constexpr Bits kFlush = Bits{1} << 24;
inline Bits get() {
  Bits bits = 0;
  asm volatile("mrs %0, fpcr" : "=r"(bits));
  return bits;
}
inline void set(Bits bits) {
  asm volatile("msr fpcr, %0" ::"r"(bits));
}
#else
// They stay what they are: so they do in the reference here, and nothing else is compared with it.
using Bits = unsigned;
inline constexpr Bits kFlush = 0;
inline Bits get() {
  return 0;
}
inline void set(Bits /*bits*/) {}
#endif

}  // namespace floating_point_mode

/// While one lives, the thread flushes denormal inputs and results to zero. Backends make one
/// around each task, so neither the pool's threads nor its caller need to know.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(floating_point_mode::get()) {
    floating_point_mode::set(saved_ | floating_point_mode::kFlush);
    keep_arithmetic_inside();
  }
  ~FlushDenormals() {
    keep_arithmetic_inside();
    floating_point_mode::set(saved_);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  // Operands come from memory and results go there, so a barrier on memory is one on arithmetic.
  static void keep_arithmetic_inside() { asm volatile("" ::: "memory"); }

  floating_point_mode::Bits saved_;
};

}  // namespace headrace
