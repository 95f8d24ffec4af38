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

#include "model/checkpoint/checksum.h"
#include "model/checkpoint/embedded_files.h"

namespace headrace {
namespace {

std::string system_text(int error) {
  return std::generic_category().message(error);
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : InputFile() {
  path_ = std::move(path);
  // O_NONBLOCK: a named pipe in place of a file is refused below instead of waiting for a writer.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  descriptor_ = ::open(path_.c_str(), kFlags);
  std::optional<EmbeddedFile> embedded;
  if (descriptor_ < 0 && errno == ENOTDIR && (embedded = find_embedded_file(path_))) {
    descriptor_ = ::open(embedded->container.c_str(), kFlags);
  }
  if (descriptor_ < 0) {
    throw std::invalid_argument(
        fmt::format("{}: cannot be opened: {}", path_.string(), system_text(errno)));
  }
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    throw std::invalid_argument(fmt::format("{}: not a regular file", path_.string()));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (embedded) take_parts(embedded->file);
}

// The parts lie one behind the other in the checkpoint. They are small and decide everything: their
// checksum is looked at whenever they are opened.
void InputFile::take_parts(const Hdf5File& file) {
  size_ = file.file_bytes;
  std::vector<Part>& parts = parts_.emplace();
  std::uint64_t at = file.offset;
  for (const FileExtent& extent : file.extents) {
    parts.push_back({extent, at});
    at += extent.end - extent.begin;
  }
  std::vector<std::byte> bytes(file.bytes);
  read_descriptor(file.offset, bytes);
  Checksum checksum;
  checksum.add(bytes);
  if (checksum.value() != file.checksum) {
    throw std::invalid_argument(
        fmt::format("{}: is damaged: its bytes do not have the checksum that was stored with them",
                    path_.string()));
  }
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)),
      parts_(std::move(other.parts_)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(parts_, other.parts_);
  return *this;
}

const InputFile::Part* InputFile::find_part(std::uint64_t offset) const {
  const auto found = std::find_if(parts_->begin(), parts_->end(), [offset](const Part& part) {
    return offset >= part.extent.begin && offset < part.extent.end;
  });
  return found == parts_->end() ? nullptr : &*found;
}

std::uint64_t InputFile::readable(std::uint64_t offset) const {
  if (!parts_) return size_ - std::min(offset, size_);
  const Part* part = find_part(offset);
  return part == nullptr ? 0 : part->extent.end - offset;
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (!parts_ || out.empty()) return read_descriptor(offset, out);
  const Part* part = find_part(offset);
  if (part == nullptr || out.size() > part->extent.end - offset) {
    throw std::runtime_error(fmt::format("{}: bytes {} to {} are not in the checkpoint",
                                         path_.string(), offset, offset + out.size()));
  }
  read_descriptor(part->at + (offset - part->extent.begin), out);
}

void InputFile::read_descriptor(std::uint64_t offset, std::span<std::byte> out) const {
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
