#include "runtime/job/job_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

namespace headrace {
namespace {

struct Owner {
  std::string host;
  std::int64_t pid = 0;
};

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// Nothing for an empty or foreign file: its owner may be about to write it.
std::optional<Owner> read_owner(const File& file) {
  std::array<char, 1024> bytes;
  const ssize_t size = ::pread(file.descriptor(), bytes.data(), bytes.size(), 0);
  if (size <= 0) return std::nullopt;
  const auto json = nlohmann::json::parse(bytes.data(), bytes.data() + size, nullptr, false);
  if (!json.is_object() || !json.contains("host") || !json["host"].is_string() ||
      !json.contains("pid") || !json["pid"].is_number_integer()) {
    return std::nullopt;
  }
  return Owner{json["host"].get<std::string>(), json["pid"].get<std::int64_t>()};
}

std::string describe(const std::optional<Owner>& owner) {
  if (!owner) return "another process";
  return fmt::format("process {} on {}", owner->pid, owner->host);
}

bool is_alive(const Owner& owner) {
  return ::kill(static_cast<pid_t>(owner.pid), 0) == 0 || errno == EPERM;
}

enum class Attempt : std::uint8_t { kTaken, kHeld, kUnsupported };

Attempt try_lock(const File& file, int mode) {
  if (::flock(file.descriptor(), mode | LOCK_NB) == 0) return Attempt::kTaken;
  return errno == EWOULDBLOCK ? Attempt::kHeld : Attempt::kUnsupported;
}

// Where the file system has no locks, only what the file says is left: an owner on this host can be
// asked for, one elsewhere cannot.
bool content_says_held(const File& file) {
  const std::optional<Owner> owner = read_owner(file);
  return owner && (owner->host != host_name() || is_alive(*owner));
}

bool same_inode(const File& file, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file.descriptor(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

[[noreturn]] void refuse(const File& file, const std::filesystem::path& path, bool supported) {
  std::string message =
      fmt::format("{}: {} works on this output", path.string(), describe(read_owner(file)));
  if (!supported) message += "; if it does not run any more, remove the file";
  throw std::invalid_argument(message);
}

// An inspection holds a shared lock for a moment: a job that starts just then tries again.
Attempt try_lock_patiently(const File& file) {
  Attempt attempt = try_lock(file, LOCK_EX);
  for (int i = 0; i < 10 && attempt == Attempt::kHeld; ++i) {
    ::usleep(2000);
    attempt = try_lock(file, LOCK_EX);
  }
  return attempt;
}

}  // namespace

JobLock JobLock::acquire(const std::filesystem::path& path, std::int64_t start_s, FileOps& files) {
  while (true) {
    File file = files.open_append(path);
    const Attempt attempt = try_lock_patiently(file);
    if (attempt == Attempt::kHeld) refuse(file, path, true);
    if (attempt == Attempt::kUnsupported && content_says_held(file)) refuse(file, path, false);
    // An owner that finished in between removed the file that we locked.
    if (!same_inode(file, path)) continue;
    files.truncate(file, 0, path);
    const nlohmann::ordered_json owner = {
        {"host", host_name()}, {"pid", ::getpid()}, {"start", start_s}};
    files.write(file, owner.dump() + "\n", path);
    return {path, std::move(file), files};
  }
}

void JobLock::release() {
  files_->remove(path_);
  file_ = File();
}

JobLock::~JobLock() {
  if (file_.is_open()) ::unlink(path_.c_str());
}

std::optional<std::string> lock_owner(const std::filesystem::path& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return std::nullopt;
  const Attempt attempt = try_lock(file, LOCK_SH);
  if (attempt == Attempt::kTaken) return std::nullopt;
  if (attempt == Attempt::kUnsupported && !content_says_held(file)) return std::nullopt;
  return describe(read_owner(file));
}

}  // namespace headrace
