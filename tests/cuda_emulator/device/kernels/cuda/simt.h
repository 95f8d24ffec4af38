// The emulator's twin of kernels/cuda/simt.h: the same names for kernels that run on the CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/stream.h"
#include "tests/cuda_emulator/emulator.h"

#define HR_DEVICE inline
#define HR_KERNEL(threads, min_blocks) void

namespace headrace {

inline constexpr int kWarpThreads = emulator::kLanes;
inline constexpr std::uint32_t kWholeWarp = 0xFFFFFFFFU;

inline int thread_index() {
  return emulator::thread_index();
}
inline int block_threads() {
  return emulator::block_threads();
}
inline int block_x() {
  return emulator::block_x();
}
inline int block_y() {
  return emulator::block_y();
}
inline int lane_index() {
  return thread_index() % kWarpThreads;
}
inline int warp_index() {
  return thread_index() / kWarpThreads;
}

inline void sync_block(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator::sync_block({file, line});
}

inline void sync_warp(std::uint32_t mask = kWholeWarp, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
  emulator::WarpSlots slots;
  emulator::gather({.mask = mask, .site = {file, line}}, slots);
}

namespace emulator {

// The value of lane `source`, which has to be of the mask.
inline float shuffled(float value, int source, std::uint32_t mask, Site site) {
  WarpSlots slots;
  gather({.operation = WarpOperation::kShuffle,
          .mask = mask,
          .data = &value,
          .bytes = sizeof(value),
          .wanted_lane = source,
          .site = site},
         slots);
  if (source < 0 || source >= kLanes || (mask >> source & 1U) == 0) {
    fail("shuffle from a lane that is not in the mask", site);
  }
  std::memcpy(&value, slots.bytes[source], sizeof(value));
  return value;
}

}  // namespace emulator

inline float shuffle_xor(float value, int lanes, std::uint32_t mask = kWholeWarp,
                         const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return emulator::shuffled(value, lane_index() ^ lanes, mask, {file, line});
}

inline float shuffle(float value, int source, std::uint32_t mask = kWholeWarp,
                     const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return emulator::shuffled(value, source, mask, {file, line});
}

class SharedMemory {
 public:
  template <class T>
  T* take(int count, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    return static_cast<T*>(emulator::take_shared(taken_++, bytes, {file, line}));
  }

 private:
  int taken_ = 0;
};

using LaunchShape = emulator::GridShape;

template <class Args>
void launch(void (*kernel)(Args), const LaunchShape& shape, Stream stream, const Args& args) {
  emulator::launch(shape, stream, [kernel, args] { kernel(args); });
}

}  // namespace headrace
