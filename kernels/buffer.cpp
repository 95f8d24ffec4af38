#include "kernels/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace headrace {
namespace {
constexpr std::size_t kVectorAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePage;
  if (huge) {
    // Anonymous memory is zero already; over-map by one huge page to align the start.
    const std::size_t mapped = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* p = std::aligned_alloc(kHugePage, mapped);
    if (p == nullptr) throw std::bad_alloc();
    madvise(p, mapped, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(p);
  } else {
    const std::size_t rounded = (bytes + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
    void* p = std::aligned_alloc(kVectorAlignment, rounded);
    if (p == nullptr) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(p);
    std::memset(data_, 0, rounded);
  }
}

Buffer::~Buffer() { std::free(data_); }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    std::free(data_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

}  // namespace headrace
