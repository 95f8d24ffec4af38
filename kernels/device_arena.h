// Where a backend's tensors lie: the memory of its device, taken once and kept as long as the
// backend lives, and the copies between it and the host. On a CPU it is the host's own memory; a
// GPU's the host reaches by copies alone. Copies are queued behind the operators that were called
// before, and those that follow see what they did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/swap_memory.h"

namespace headrace {

/// `rows` runs of `row_bytes` bytes, a stride apart on either side.
struct RowCopy {
  std::byte* to = nullptr;
  std::size_t to_stride = 0;
  const std::byte* from = nullptr;
  std::size_t from_stride = 0;
  std::size_t row_bytes = 0;
  std::int64_t rows = 0;
};

class DeviceArena {
 public:
  virtual ~DeviceArena() = default;

  /// Whether the host reads and writes this memory as its own.
  virtual bool is_host() const = 0;

  /// Makes all that is taken from here on parts of one piece of so many bytes, each rounded up to
  /// kArenaAlignment. Where it was not called, each is a piece of its own. Throws
  /// std::runtime_error where the device has no such piece.
  virtual void reserve(std::size_t bytes) = 0;

  /// So many bytes for as long as the backend lives, aligned for every operator; null for none.
  /// What they hold is not defined. Throws std::bad_alloc, or std::runtime_error naming the device.
  virtual std::byte* take(std::size_t bytes) = 0;

  /// Host to device; `from` is free again on return.
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  /// Device to host; `to` is complete on return.
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  /// Inside the device; the two sides do not overlap.
  virtual void copy_rows(const RowCopy& copy) = 0;
  virtual void zero(std::byte* data, std::size_t bytes) = 0;

  /// Host memory of so many blocks for those of a cache in this arena. Throws std::bad_alloc, or
  /// std::runtime_error naming the device. The arena must outlive it.
  virtual std::unique_ptr<SwapMemory> make_swap_memory(const BlockPieces& cache,
                                                       int num_swap_blocks) = 0;
  /// What it takes of a reserved piece.
  virtual std::size_t swap_memory_bytes(std::size_t block_bytes, int num_swap_blocks) const = 0;

  /// Called while the host waits for the device: this is where MPI makes progress then. Empty for
  /// none.
  virtual void set_poll(std::function<void()> poll) = 0;
};

inline constexpr std::size_t kArenaAlignment = 256;

/// What taking so many bytes costs of a reserved piece.
constexpr std::size_t arena_bytes(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

/// Of backends that compute on the host.
std::unique_ptr<DeviceArena> make_host_arena();

/// Memory that the host fills or reads between operators, and what the device sees of it: on a CPU
/// the same bytes, elsewhere two copies. The arena must outlive it.
class MirroredMemory {
 public:
  MirroredMemory() = default;
  MirroredMemory(DeviceArena& arena, std::size_t bytes);

  std::byte* host() const { return host_; }
  std::byte* device() const { return device_; }

  /// Brings the first `bytes` bytes over, as upload() and download() do; to the host also those
  /// from `begin` on.
  void to_device(std::size_t bytes) const;
  void to_host(std::size_t bytes, std::size_t begin = 0) const;

 private:
  DeviceArena* arena_ = nullptr;
  std::byte* device_ = nullptr;
  std::byte* host_ = nullptr;
  std::unique_ptr<std::byte[]> owned_;  // host_, where it is not the device's
};

}  // namespace headrace
