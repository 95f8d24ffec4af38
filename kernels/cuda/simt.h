// All that a kernel uses of the GPU's execution model, and the one way to launch a kernel. Kernel
// sources take threads, barriers, shuffles and shared memory from here and instructions from ptx.h;
// so the same text also compiles for the emulator of the tests, which puts twins of these two
// headers in front of them on the include path (tests/cuda_emulator).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/cuda/stream.h"

// A function of kernels, and a kernel with its threads a block and the blocks that have to fit on a
// multiprocessor at a time.
#define HR_DEVICE __device__ __forceinline__
#define HR_KERNEL(threads, min_blocks) __global__ void __launch_bounds__(threads, min_blocks)

namespace headrace {

inline constexpr int kWarpThreads = 32;
inline constexpr std::uint32_t kWholeWarp = 0xFFFFFFFFU;

HR_DEVICE int thread_index() {
  return static_cast<int>(threadIdx.x);
}
HR_DEVICE int block_threads() {
  return static_cast<int>(blockDim.x);
}
HR_DEVICE int block_x() {
  return static_cast<int>(blockIdx.x);
}
HR_DEVICE int block_y() {
  return static_cast<int>(blockIdx.y);
}
HR_DEVICE int lane_index() {
  return thread_index() % kWarpThreads;
}
HR_DEVICE int warp_index() {
  return thread_index() / kWarpThreads;
}

/// Every thread of the block that has not returned arrives; what was written before is seen after.
HR_DEVICE void sync_block() {
  __syncthreads();
}

/// The same for the lanes of `mask`, all of which call it with the same mask.
HR_DEVICE void sync_warp(std::uint32_t mask = kWholeWarp) {
  __syncwarp(mask);
}

/// The value of the lane whose number differs in the bits of `lanes`. Orders no memory.
HR_DEVICE float shuffle_xor(float value, int lanes, std::uint32_t mask = kWholeWarp) {
  return __shfl_xor_sync(mask, value, lanes);
}

/// The value of lane `source`. Orders no memory.
HR_DEVICE float shuffle(float value, int source, std::uint32_t mask = kWholeWarp) {
  return __shfl_sync(mask, value, source);
}

/// Hands out the block's shared memory, piece by piece; every thread takes the same pieces in the
/// same order. LaunchShape::shared_bytes is the sum of the pieces, each rounded up to 16 bytes.
class SharedMemory {
 public:
  template <class T>
  HR_DEVICE T* take(int count) {
    extern __shared__ __align__(16) unsigned char shared_memory[];
    T* piece = reinterpret_cast<T*>(shared_memory + used_);
    used_ += (count * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
    return piece;
  }

 private:
  int used_ = 0;
};

struct LaunchShape {
  std::int64_t grid_x = 0;  // blocks; nothing is launched for none
  std::int64_t grid_y = 1;
  int threads = 0;
  int shared_bytes = 0;
};

inline void require_success(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}

/// Runs kernel(args) on the stream. Returns at once; throws std::runtime_error where the launch
/// itself is refused.
template <class Args>
void launch(void (*kernel)(Args), const LaunchShape& shape, Stream stream, const Args& args) {
  if (shape.grid_x == 0 || shape.grid_y == 0) return;
  constexpr int kSharedWithoutAsking = 48 * 1024;
  if (shape.shared_bytes > kSharedWithoutAsking) {
    require_success(
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes),
        "cudaFuncSetAttribute");
  }
  Args copy = args;
  void* pointers[] = {&copy};
  require_success(cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                                   dim3(static_cast<unsigned>(shape.grid_x),
                                        static_cast<unsigned>(shape.grid_y)),
                                   dim3(static_cast<unsigned>(shape.threads)), pointers,
                                   static_cast<std::size_t>(shape.shared_bytes), stream),
                  "cudaLaunchKernel");
}

}  // namespace headrace
