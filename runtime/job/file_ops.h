// Every operation by which a job changes files. Tests put a twin here that stops the program at the
// n-th operation, and prove that the same command then completes correctly.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace headrace {

/// A file descriptor with one owner.
class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// Each throws std::system_error naming the operation and the path where the system refuses.
class FileOps {
 public:
  virtual ~FileOps() = default;

  /// Opens for reading and appending; created where it is missing.
  virtual File open_append(const std::filesystem::path& path);
  /// Creates or empties.
  virtual File create(const std::filesystem::path& path);
  virtual void write(const File& file, std::string_view bytes, const std::filesystem::path& path);
  virtual void sync(const File& file, const std::filesystem::path& path);
  virtual void truncate(const File& file, std::int64_t size, const std::filesystem::path& path);
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to);
  /// Nothing where the file is missing.
  virtual void remove(const std::filesystem::path& path);
  /// Makes renames and removals in a directory durable.
  virtual void sync_directory(const std::filesystem::path& directory);

  /// The real ones.
  static FileOps& system();
};

/// Reads exactly size bytes at offset; false where the file ends before.
bool read_at(const File& file, std::int64_t offset, std::span<char> bytes);

/// Opens for reading; throws std::system_error naming the path.
File open_read(const std::filesystem::path& path);

std::int64_t size_of(const File& file);

}  // namespace headrace
