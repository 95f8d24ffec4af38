// Host memory of a stage: one owner, aligned for vector loads and huge pages.
#pragma once

#include <cstddef>
#include <memory>

namespace headrace {

/// Owns zero-filled memory aligned to 64 bytes (2 MiB with huge pages advised from 2 MiB up).
/// Move-only. The pages are first touched by whoever writes them.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes);  // throws std::bad_alloc
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace headrace
