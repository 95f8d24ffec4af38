// Owners of what CUDA hands out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

namespace headrace {

/// A stream that does not wait for the default one.
class OwnedStream {
 public:
  OwnedStream();
  ~OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An event without timing.
class OwnedEvent {
 public:
  OwnedEvent();
  ~OwnedEvent();
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;

  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

enum class MemoryKind { kDevice, kPinnedHost };

/// Memory of the device, or of the host where the device copies without detour. Not initialised.
template <MemoryKind kKind>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  explicit OwnedMemory(std::size_t bytes);
  ~OwnedMemory();
  OwnedMemory(OwnedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

using DeviceMemory = OwnedMemory<MemoryKind::kDevice>;
using PinnedMemory = OwnedMemory<MemoryKind::kPinnedHost>;
extern template class OwnedMemory<MemoryKind::kDevice>;
extern template class OwnedMemory<MemoryKind::kPinnedHost>;

}  // namespace headrace
