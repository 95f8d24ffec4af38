#include "tests/fuzz/largest_allocation.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> largest{0};

void* counted_or_null(std::size_t bytes) {
  if (bytes > largest.load(std::memory_order_relaxed)) largest = bytes;
  return std::malloc(bytes == 0 ? 1 : bytes);  // NOLINT(cppcoreguidelines-no-malloc)
}

void* counted_allocation(std::size_t bytes) {
  void* memory = counted_or_null(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted_allocation(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted_allocation(bytes);
}
// Sanitizers have these apart from the ones above.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted_or_null(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted_or_null(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}  // NOLINT
void operator delete[](void* memory) noexcept {
  std::free(memory);
}  // NOLINT
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}  // NOLINT
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}  // NOLINT

namespace headrace {

std::size_t largest_allocation() {
  return largest;
}
void reset_largest_allocation() {
  largest = 0;
}

}  // namespace headrace
