#include "kernels/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace headrace {
namespace {

constexpr std::size_t kVectorAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

bool uses_huge_pages(std::size_t bytes) {
  return bytes >= kHugePage;
}

// Straight from the kernel, which hands out zeros; the allocator could hand out used memory. Maps
// one huge page more than needed and gives back what lies before the first boundary and behind the
// end.
std::byte* map_huge(std::size_t bytes) {
  const std::size_t wanted = round_up(bytes, kHugePage);
  const std::size_t mapped = wanted + kHugePage;
  void* p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(p);
  const std::size_t skip = round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) -
                           reinterpret_cast<std::uintptr_t>(begin);
  if (skip > 0) munmap(begin, skip);
  if (skip < kHugePage) munmap(begin + skip + wanted, kHugePage - skip);
  madvise(begin + skip, wanted, MADV_HUGEPAGE);
  return begin + skip;
}

void release(std::byte* data, std::size_t bytes) {
  if (uses_huge_pages(bytes)) {
    munmap(data, round_up(bytes, kHugePage));
  } else {
    std::free(data);
  }
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (uses_huge_pages(bytes)) {
    data_ = map_huge(bytes);
    return;
  }
  const std::size_t rounded = round_up(bytes, kVectorAlignment);
  void* p = std::aligned_alloc(kVectorAlignment, rounded);
  if (p == nullptr) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(p);
  std::memset(data_, 0, rounded);
}

Buffer::~Buffer() {
  release(data_, bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release(data_, bytes_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

}  // namespace headrace
