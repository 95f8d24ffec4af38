#include "runtime/job/spill_arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace headrace {
namespace {

// A file without a name: it is gone with the process, however that ends.
File open_unnamed(const std::filesystem::path& directory) {
  std::string path = (directory / ".headrace-index-XXXXXX").string();
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) {
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("cannot make a file in {}", directory.string()));
  }
  ::unlink(path.c_str());
  return File(descriptor);
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

Pages::~Pages() {
  if (data_ == nullptr) return;
  ::munmap(data_, bytes_);
  if (arena_ != nullptr) arena_->used_bytes_ -= bytes_;
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), arena_(other.arena_) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(arena_, other.arena_);
  return *this;
}

Pages SpillArena::allocate(std::size_t bytes) {
  bytes = whole_pages(bytes);
  return used_bytes_ + bytes <= budget_bytes_ ? map_memory(bytes) : map_file(bytes);
}

Pages SpillArena::map_memory(std::size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  Pages pages;
  pages.data_ = static_cast<std::byte*>(data);
  pages.bytes_ = bytes;
  pages.arena_ = this;
  used_bytes_ += bytes;
  return pages;
}

Pages SpillArena::map_file(std::size_t bytes) {
  if (!file_.is_open()) file_ = open_unnamed(directory_);
  // Reserved, not just extended: a full disk is an error here and not a signal at the first access.
  const int refused = ::posix_fallocate(file_.descriptor(), static_cast<off_t>(file_bytes_),
                                        static_cast<off_t>(bytes));
  if (refused != 0) {
    throw std::system_error(refused, std::generic_category(),
                            fmt::format("cannot extend the index in {}", directory_.string()));
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.descriptor(),
                      static_cast<off_t>(file_bytes_));
  if (data == MAP_FAILED) throw std::bad_alloc();
  file_bytes_ += bytes;
  Pages pages;
  pages.data_ = static_cast<std::byte*>(data);
  pages.bytes_ = bytes;
  return pages;
}

}  // namespace headrace
