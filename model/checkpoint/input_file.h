// A file that is read by position: headers while a model is opened, then large pieces of weights.
// Never mapped: a mapped file on a parallel file system is read page by page.
//
// The small files that a Headrace checkpoint holds open like those of a directory (see
// embedded_files.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace headrace {

/// Bytes [begin, end) of a file.
struct FileExtent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Hdf5File;

/// Owns an open file descriptor. Move-only; reading does not change the object, so several threads
/// may read through one.
class InputFile {
 public:
  /// Throws std::invalid_argument where there is no such file, it is not a regular file or it may
  /// not be read, or where a checkpoint holds it damaged.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Bytes in the file when it was opened. Headers are checked against it.
  std::uint64_t size() const { return size_; }

  /// How many bytes there are from offset on: to the file's end, or to the end of the part that a
  /// checkpoint holds of it.
  std::uint64_t readable(std::uint64_t offset) const;

  /// Fills out from offset. Throws std::runtime_error naming file and position on an I/O error,
  /// where the file has become shorter since it was opened, or for bytes that a checkpoint does not
  /// hold.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

  /// The first bytes, at most limit of them.
  std::string head(std::size_t limit) const;

 private:
  /// A part of the file, and where the checkpoint has it.
  struct Part {
    FileExtent extent;
    std::uint64_t at = 0;
  };

  /// Owns nothing. Constructors delegate to it: whatever they opened is closed where they throw.
  InputFile() = default;
  void take_parts(const Hdf5File& file);
  const Part* find_part(std::uint64_t offset) const;
  void read_descriptor(std::uint64_t offset, std::span<std::byte> out) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::optional<std::vector<Part>> parts_;  // of a file in a checkpoint
};

/// The whole text of a small file. Throws std::invalid_argument where it has more than max_bytes.
std::string read_text(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace headrace
