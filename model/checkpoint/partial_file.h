// A file that appears at once or not at all: written beside its place under another name, made
// durable, then renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace headrace {

/// Owns PATH.partial, and holds a lock on it, so that two programs do not write the same file. What
/// an earlier program left under that name is overwritten. Unless commit() was called, the
/// destructor removes it.
class PartialFile {
 public:
  /// Throws std::invalid_argument where the directory is missing or may not be written, or another
  /// program is writing the same file.
  explicit PartialFile(std::filesystem::path path);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  /// Where the file is until commit().
  const std::filesystem::path& partial_path() const { return partial_path_; }

  /// Throws std::runtime_error naming the file where the system refuses.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;

  /// Makes the contents durable and gives the file its name.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_path_;
  int descriptor_ = -1;
};

/// Makes the names in a directory durable.
void sync_directory(const std::filesystem::path& directory);

}  // namespace headrace
