// A file that is read by position: headers while a model is opened, then large pieces of weights.
// Never mapped: a mapped file on a parallel file system is read page by page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace headrace {

/// Owns an open file descriptor. Move-only; reading does not change the object, so several threads
/// may read through one.
class InputFile {
 public:
  /// Throws std::invalid_argument where there is no such file, it is not a regular file or it may
  /// not be read.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Bytes in the file when it was opened. Headers are checked against it.
  std::uint64_t size() const { return size_; }

  /// Fills out from offset. Throws std::runtime_error naming file and position on an I/O error, or
  /// where the file has become shorter since it was opened.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

  /// The first bytes, at most limit of them.
  std::string head(std::size_t limit) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// The whole text of a small file. Throws std::invalid_argument where it has more than max_bytes.
std::string read_text(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace headrace
