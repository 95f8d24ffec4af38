// File operations that stop the program, or fail, at the n-th one.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "runtime/job/file_ops.h"

namespace headrace {

enum class Fault : std::uint8_t {
  kNone,        // only counts
  kKillBefore,  // ends the process in place of the operation
  kKillTorn,    // does half of a write, or all of another operation, then ends the process
  kError,       // half of a write, then "no space left"
};

class FaultyFileOps final : public FileOps {
  template <typename Operation>
  auto around(Operation&& operation) {
    const bool here = ++count_ == at_ && fault_ != Fault::kNone;
    if (here && fault_ != Fault::kKillTorn) fail();
    auto result = operation();
    if (here) fail();
    return result;
  }

  [[noreturn]] void fail() const {
    if (fault_ == Fault::kError)
      throw std::system_error(ENOSPC, std::generic_category(), "injected");
    ::_exit(kKilled);
  }

 public:
  static constexpr int kKilled = 9;

  FaultyFileOps(Fault fault, int at) : fault_(fault), at_(at) {}
  int num_operations() const { return count_; }

  File open_append(const std::filesystem::path& path) override {
    return around([&] { return FileOps::open_append(path); });
  }
  File create(const std::filesystem::path& path) override {
    return around([&] { return FileOps::create(path); });
  }
  void write(const File& file, std::string_view bytes, const std::filesystem::path& path) override {
    if (++count_ != at_ || fault_ == Fault::kNone) return FileOps::write(file, bytes, path);
    if (fault_ != Fault::kKillBefore) FileOps::write(file, bytes.substr(0, bytes.size() / 2), path);
    fail();
  }
  void sync(const File& file, const std::filesystem::path&) override {
    // Counted, not done: these tests end processes, not machines.
    around([&] { return file.descriptor(); });
  }
  void truncate(const File& file, std::int64_t size, const std::filesystem::path& path) override {
    around([&] { return FileOps::truncate(file, size, path), 0; });
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    around([&] { return FileOps::rename(from, to), 0; });
  }
  void remove(const std::filesystem::path& path) override {
    around([&] { return FileOps::remove(path), 0; });
  }
  void sync_directory(const std::filesystem::path&) override {
    around([] { return 0; });
  }

 private:
  Fault fault_;
  int at_;
  int count_ = 0;
};

}  // namespace headrace
