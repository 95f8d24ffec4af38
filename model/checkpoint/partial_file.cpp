#include "model/checkpoint/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace headrace {
namespace {

std::string system_text(int error) {
  return std::generic_category().message(error);
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

PartialFile::PartialFile(std::filesystem::path path)
    : path_(std::move(path)), partial_path_(path_.string() + ".partial") {
  const int descriptor = ::open(partial_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    throw std::invalid_argument(
        fmt::format("{}: cannot be created: {}", partial_path_.string(), system_text(errno)));
  }
  // Where the file system has no locks nothing stands in the way.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor);
    throw std::invalid_argument(
        fmt::format("{}: another program is writing it", partial_path_.string()));
  }
  if (::ftruncate(descriptor, 0) != 0) {
    const std::string text = system_text(errno);
    ::close(descriptor);
    throw std::invalid_argument(
        fmt::format("{}: cannot be emptied: {}", partial_path_.string(), text));
  }
  descriptor_ = descriptor;
}

PartialFile::~PartialFile() {
  if (descriptor_ < 0) return;
  ::unlink(partial_path_.c_str());
  ::close(descriptor_);
}

void PartialFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  constexpr std::size_t kMaxPiece = std::size_t{1} << 30;  // Linux moves at most 0x7ffff000 a call
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxPiece),
                                  static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      throw std::runtime_error(
          fmt::format("{}: cannot be written: {}", partial_path_.string(), system_text(errno)));
    }
    offset += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void PartialFile::commit() {
  if (::fsync(descriptor_) != 0) {
    throw std::runtime_error(
        fmt::format("{}: cannot be made durable: {}", partial_path_.string(), system_text(errno)));
  }
  std::filesystem::rename(partial_path_, path_);
  ::close(std::exchange(descriptor_, -1));
  sync_directory(directory_of(path_));
}

void sync_directory(const std::filesystem::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // not every file system lets a directory be opened
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace headrace
