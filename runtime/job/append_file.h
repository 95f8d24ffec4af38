// A file that grows at its end through a buffer: OUTPUT.partial and the journal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/job/file_ops.h"

namespace headrace {

class AppendFile {
 public:
  AppendFile() = default;
  AppendFile(File file, std::filesystem::path path, FileOps& files)
      : file_(std::move(file)), path_(std::move(path)), files_(&files), end_(size_of(file_)) {}

  /// Where the next byte will lie: buffered bytes count.
  std::int64_t end() const { return end_; }
  const File& file() const { return file_; }
  const std::filesystem::path& path() const { return path_; }
  std::size_t buffered_bytes() const { return buffer_.size(); }

  void append(std::string_view bytes) {
    buffer_ += bytes;
    end_ += std::ssize(bytes);
  }
  void write() {
    if (buffer_.empty()) return;
    files_->write(file_, buffer_, path_);
    buffer_.clear();
    synced_ = false;
  }
  void sync() {
    if (synced_) return;
    files_->sync(file_, path_);
    synced_ = true;
  }
  /// Only while nothing is buffered.
  void truncate(std::int64_t size) {
    if (size == end_) return;
    files_->truncate(file_, size, path_);
    end_ = size;
    synced_ = false;
  }
  /// The same file under another name.
  void set_path(std::filesystem::path path) { path_ = std::move(path); }

 private:
  File file_;
  std::filesystem::path path_;
  FileOps* files_ = nullptr;
  std::int64_t end_ = 0;
  std::string buffer_;
  bool synced_ = true;
};

}  // namespace headrace
