#include "runtime/job/file_ops.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace headrace {
namespace {

[[noreturn]] void fail(std::string_view operation, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(),
                          fmt::format("cannot {} {}", operation, path.string()));
}

File opened(int descriptor, std::string_view operation, const std::filesystem::path& path) {
  if (descriptor < 0) fail(operation, path);
  return File(descriptor);
}

constexpr int kMode = 0666;  // the user's umask decides

}  // namespace

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File FileOps::open_append(const std::filesystem::path& path) {
  return opened(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kMode), "open", path);
}

File FileOps::create(const std::filesystem::path& path) {
  return opened(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, kMode),
                "create", path);
}

void FileOps::write(const File& file, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.descriptor(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void FileOps::sync(const File& file, const std::filesystem::path& path) {
  if (::fdatasync(file.descriptor()) != 0) fail("sync", path);
}

void FileOps::truncate(const File& file, std::int64_t size, const std::filesystem::path& path) {
  if (::ftruncate(file.descriptor(), size) != 0) fail("truncate", path);
}

void FileOps::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail("rename to", to);
}

void FileOps::remove(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail("remove", path);
}

void FileOps::sync_directory(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory.empty() ? "." : directory;
  const File file =
      opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open directory", path);
  // File systems without directory syncs answer EINVAL; their renames are as durable as they get.
  if (::fsync(file.descriptor()) != 0 && errno != EINVAL) fail("sync directory", path);
}

FileOps& FileOps::system() {
  static FileOps operations;
  return operations;
}

bool read_at(const File& file, std::int64_t offset, std::span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file.descriptor(), bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw std::system_error(errno, std::generic_category(), "cannot read a job's file");
    if (got == 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return true;
}

File open_read(const std::filesystem::path& path) {
  return opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC), "open", path);
}

std::int64_t size_of(const File& file) {
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot read the size of a job's file");
  }
  return status.st_size;
}

}  // namespace headrace
