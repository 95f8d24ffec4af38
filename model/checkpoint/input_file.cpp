#include "model/checkpoint/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace headrace {
namespace {

std::string system_text(int error) {
  return std::generic_category().message(error);
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: a named pipe in place of a file is refused below instead of waiting for a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    throw std::invalid_argument(
        fmt::format("{}: cannot be opened: {}", path_.string(), system_text(errno)));
  }
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw std::invalid_argument(fmt::format("{}: not a regular file", path_.string()));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  // Linux moves at most 0x7ffff000 bytes a call; a round number below it keeps pieces aligned.
  constexpr std::size_t kMaxPiece = std::size_t{1} << 30;
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), std::min(out.size(), kMaxPiece),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw std::runtime_error(fmt::format("{}: reading {} bytes at byte {} failed: {}",
                                           path_.string(), out.size(), offset, system_text(errno)));
    }
    if (got == 0) {
      throw std::runtime_error(fmt::format(
          "{}: ended at byte {} with {} bytes still to read: the file has become shorter since it "
          "was opened",
          path_.string(), offset, out.size()));
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::string InputFile::head(std::size_t limit) const {
  std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(limit, size_)), '\0');
  read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string read_text(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const InputFile file(path);
  if (file.size() > max_bytes) {
    throw std::invalid_argument(
        fmt::format("{}: has {} bytes; at most {} are read from such a file", path.string(),
                    file.size(), max_bytes));
  }
  return file.head(static_cast<std::size_t>(max_bytes));
}

}  // namespace headrace
