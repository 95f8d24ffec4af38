// The memory of one GPU that tensors lie in, and copies between it and the host by way of pinned
// buffers. Everything is queued on the stream of the operators.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "kernels/cuda/handles.h"
#include "kernels/device_arena.h"

namespace headrace {

class CudaArena final : public DeviceArena {
 public:
  explicit CudaArena(cudaStream_t stream);

  cudaStream_t stream() const { return stream_; }

  bool is_host() const override { return false; }
  void reserve(std::size_t bytes) override;
  std::byte* take(std::size_t bytes) override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) override;
  void copy_rows(const RowCopy& copy) override;
  void zero(std::byte* data, std::size_t bytes) override;
  std::unique_ptr<SwapMemory> make_swap_memory(const BlockPieces& cache,
                                               int num_swap_blocks) override;
  std::size_t swap_memory_bytes(std::size_t block_bytes, int num_swap_blocks) const override;
  void set_poll(std::function<void()> poll) override { poll_ = std::move(poll); }

  /// Brings `bytes` bytes to the device as make(place, begin, count) writes them: those from
  /// `begin` on to pinned memory, kStagingBytes at most at a time. While one buffer travels the
  /// next is made. Threads may call it at once.
  using MakeBytes = std::function<void(std::byte* place, std::size_t begin, std::size_t count)>;
  void upload_made(std::byte* to, std::size_t bytes, const MakeBytes& make);

  /// A multiple of every element's size.
  static constexpr std::size_t kStagingBytes = std::size_t{4} << 20;

 private:
  struct Staging {
    PinnedMemory memory{kStagingBytes};
    OwnedEvent free;  // the copy from or to it is done
  };

  Staging& next_staging();
  void wait(const OwnedEvent& event) const;

  cudaStream_t stream_;
  std::function<void()> poll_;
  DeviceMemory reserved_;
  std::size_t used_ = 0;              // of what is reserved
  std::vector<DeviceMemory> pieces_;  // where nothing is
  std::mutex mutex_;                  // of staging
  std::array<Staging, 2> staging_;
  std::size_t next_ = 0;
};

}  // namespace headrace
