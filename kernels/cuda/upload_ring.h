// Small things that the host sends to the device before a kernel: ids, a step's image. What was
// sent last is remembered, since every layer of a step asks for the same.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <span>

#include "kernels/cuda/handles.h"
#include "kernels/device_arena.h"

namespace headrace {

class UploadRing {
 public:
  /// `bytes` is the largest thing to be sent; the device's side is taken from the arena.
  UploadRing(cudaStream_t stream, DeviceArena& arena, std::size_t bytes);

  /// Bytes that it takes from the arena.
  static std::size_t taken_bytes(std::size_t bytes) { return kSlots * arena_bytes(bytes); }

  /// Where the device finds these bytes, for work that is queued on the stream before kSlots other
  /// things have been sent. Waits only where the device is that many copies behind.
  const std::byte* send(std::span<const std::byte> bytes);

 private:
  // An image for queries and keys, one or two for attention (windows may alternate), and a spare.
  static constexpr std::size_t kSlots = 4;

  struct Slot {
    PinnedMemory host;
    std::byte* device = nullptr;
    OwnedEvent copied;
    std::size_t used = 0;
  };

  cudaStream_t stream_;
  std::array<Slot, kSlots> slots_;
  std::size_t next_ = 0;
};

}  // namespace headrace
