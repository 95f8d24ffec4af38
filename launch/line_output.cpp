#include "launch/line_output.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <system_error>

#include "runtime/job/file_ops.h"

namespace headrace {
namespace {

class StandardOutput : public LineOutput {
 public:
  void write(std::string_view line) override {
    // Flushed, so that a program at the other end of a pipe gets each answer as it is made.
    std::cout << line << '\n' << std::flush;
    if (!std::cout) throw std::runtime_error("cannot write to standard output");
  }
  void finish() override {}
};

class FileOutput : public LineOutput {
 public:
  explicit FileOutput(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
    temporary_ += ".tmp";
    file_ = files_.create(temporary_);
  }
  FileOutput(const FileOutput&) = delete;
  FileOutput& operator=(const FileOutput&) = delete;
  ~FileOutput() override {
    if (finished_) return;
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }

  void write(std::string_view line) override {
    buffer_ += line;
    buffer_ += '\n';
    if (buffer_.size() >= kBufferBytes) flush();
  }

  void finish() override {
    flush();
    files_.sync(file_, temporary_);
    files_.rename(temporary_, path_);
    finished_ = true;
    files_.sync_directory(std::filesystem::absolute(path_).parent_path());
  }

 private:
  static constexpr std::size_t kBufferBytes = 1U << 20;

  void flush() {
    files_.write(file_, buffer_, temporary_);
    buffer_.clear();
  }

  FileOps& files_ = FileOps::system();
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  File file_;
  std::string buffer_;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<LineOutput> LineOutput::open(const std::string& path) {
  if (path == "-") return std::make_unique<StandardOutput>();
  if (std::filesystem::is_directory(path)) {
    throw std::invalid_argument(
        fmt::format("--output \"{}\": a file is expected, not a directory", path));
  }
  try {
    return std::make_unique<FileOutput>(path);
  } catch (const std::system_error& e) {
    throw std::invalid_argument(fmt::format("--output \"{}\": {}", path, e.what()));
  }
}

}  // namespace headrace
