// OUTPUT.lock: who works on an output. The kernel's lock on the file decides and ends with its
// owner; the content only names the owner.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/job/file_ops.h"

namespace headrace {

class JobLock {
 public:
  /// Throws std::invalid_argument naming the owner where another process holds the lock.
  static JobLock acquire(const std::filesystem::path& path, std::int64_t start_s, FileOps& files);

  /// Removes the file, then lets go. The destructor does so too, ignoring errors.
  void release();
  ~JobLock();
  JobLock(JobLock&&) noexcept = default;
  JobLock& operator=(JobLock&&) noexcept = default;

 private:
  JobLock(std::filesystem::path path, File file, FileOps& files)
      : path_(std::move(path)), file_(std::move(file)), files_(&files) {}

  std::filesystem::path path_;
  File file_;
  FileOps* files_;
};

/// "process PID on HOST" while someone holds the lock.
std::optional<std::string> lock_owner(const std::filesystem::path& path);

}  // namespace headrace
