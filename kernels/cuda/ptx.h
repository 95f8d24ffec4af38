// The machine instructions that kernels call by name, all there since sm_80: asynchronous copies
// into shared memory, matrix fragments, the tensor cores, conversions. Fragment layouts are those
// of the PTX manual's chapter on warp-level matrix instructions. The emulator of the tests has a
// twin.
#pragma once

#include <cstdint>

#include "kernels/cuda/simt.h"

namespace headrace {

HR_DEVICE std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Starts to copy 16 bytes from global to shared memory, both aligned to 16. The first `bytes` are
/// read (0 to 16), the rest becomes zero.
HR_DEVICE void copy_async_16(void* shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(bytes)
               : "memory");
}

/// Closes the group of copies that this thread started since the last one.
HR_DEVICE void close_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most kPending of this thread's groups are unfinished. Other threads see the bytes
/// after a barrier.
template <int kPending>
HR_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Four 8x8 matrices of 16-bit elements. Lane l names row l % 8 of matrix l / 8 (16 bytes); it
/// gets, of each matrix, elements 2 * (l % 4) and the next of row l / 4.
HR_DEVICE void load_matrices(std::uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}

/// The same, each matrix transposed: elements 2 * (l % 4) and the next of column l / 4.
HR_DEVICE void load_matrices_transposed(std::uint32_t (&out)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(row))
               : "memory");
}

/// sum += a * b with a [16, 16], b [16, 8], sum float32 [16, 8]; a and b bfloat16 or float16. With
/// g = lane / 4 and t = lane % 4, register i of a holds row g + 8 * (i % 2), columns
/// 2 * t + 8 * (i / 2) and the next; register i of b rows 2 * t + 8 * i and the next, column g;
/// value i of sum row g + 8 * (i / 2), column 2 * t + i % 2.
struct Fragments {
  const std::uint32_t (&a)[4];
  std::uint32_t b0;
  std::uint32_t b1;
};

HR_DEVICE void multiply_bf16(float (&sum)[4], const Fragments& f) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b0), "r"(f.b1));
}

HR_DEVICE void multiply_f16(float (&sum)[4], const Fragments& f) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b0), "r"(f.b1));
}

/// Two values rounded to nearest even, the first in the low half.
HR_DEVICE std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

HR_DEVICE std::uint32_t pack_f16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// The float16 in the low half.
HR_DEVICE float unpack_f16(std::uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

}  // namespace headrace
