#include "runtime/job/input_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "runtime/job/byte_source.h"
#include "runtime/job/hash.h"

namespace headrace {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kBufferBytes = 256U << 10;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

// The same file under whatever names: by device and inode where both exist, else by path.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const auto path_a = std::filesystem::weakly_canonical(a, error);
  if (error) return false;
  const auto path_b = std::filesystem::weakly_canonical(b, error);
  return !error && path_a == path_b;
}

void check_readable(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw std::invalid_argument(fmt::format("--input {}: {}", path, std::strerror(errno)));
  }
  if (S_ISDIR(status.st_mode)) {
    throw std::invalid_argument(fmt::format("--input {}: is a directory, not a file", path));
  }
  if (::access(path.c_str(), R_OK) != 0) {
    throw std::invalid_argument(fmt::format("--input {}: {}", path, std::strerror(errno)));
  }
}

// XXH3 of a line that comes in pieces; equals hash64() of the whole.
class LineHash {
 public:
  LineHash() : state_(XXH3_createState(), &XXH3_freeState) {}
  void begin(std::uint64_t seed) { XXH3_64bits_reset_withSeed(state_.get(), seed); }
  void add(std::string_view bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

}  // namespace

std::string line_too_long_text() {
  return fmt::format("the line is longer than {} MiB, the most that a line may have",
                     kMaxLineBytes >> 20);
}

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto [slash, error] = std::from_chars(text.data(), end, shard.index);
  if (error == std::errc() && slash != end && *slash == '/') {
    const auto [stop, error2] = std::from_chars(slash + 1, end, shard.count);
    if (error2 == std::errc() && stop == end && shard.index >= 0 && shard.index < shard.count) {
      return shard;
    }
  }
  throw std::invalid_argument(
      fmt::format("--shard {}: expected I/N with 0 <= I < N, such as 0/4", text));
}

void check_inputs(const std::vector<std::string>& inputs,
                  const std::vector<std::string>& job_files) {
  if (inputs.empty()) throw std::invalid_argument("--input: at least one file is needed");
  if (std::count(inputs.begin(), inputs.end(), "-") > 1) {
    throw std::invalid_argument("--input: standard input (-) can be read only once");
  }
  for (const std::string& input : inputs) {
    if (input == "-") continue;
    check_readable(input);
    for (const std::string& own : job_files) {
      if (same_file(input, own)) {
        throw std::invalid_argument(
            fmt::format("--input {}: the job would write this file ({})", input, own));
      }
    }
  }
}

struct InputReader::State {
  InputOptions options;
  std::size_t next_file = 0;
  std::unique_ptr<ByteSource> source;
  std::vector<char> buffer = std::vector<char>(kBufferBytes);
  std::string_view pending;
  LineHash line_hash;
  std::int64_t ordinal = 0;
  std::int64_t number = 0;
  std::int64_t file_line = 0;
  std::int64_t bytes_before = 0;  // of files read to their end
  std::int64_t bytes_total = 0;

  bool open_next();
  bool fill();
  bool read_line(InputLine& line);
  bool finish_line(InputLine& line);
};

bool InputReader::State::open_next() {
  if (next_file == options.paths.size()) return false;
  source = open_source(options.paths[next_file++]);
  file_line = 0;
  return true;
}

// False at the end of the current file.
bool InputReader::State::fill() {
  if (!pending.empty()) return true;
  pending = {buffer.data(), source->read(buffer)};
  return !pending.empty();
}

// Collects one line of the current file into line.text; false where nothing is left of it.
bool InputReader::State::read_line(InputLine& line) {
  line.text.clear();
  line.too_long = false;
  bool any = false;
  while (fill()) {
    any = true;
    const std::size_t end = pending.find('\n');
    const std::string_view piece = pending.substr(0, end);
    if (!line.too_long && line.text.size() + piece.size() > options.max_line_bytes) {
      line.too_long = true;
      line_hash.begin(static_cast<std::uint64_t>(number));
      line_hash.add(line.text);
      line.text.clear();
    }
    if (line.too_long) {
      line_hash.add(piece);
    } else {
      line.text.append(piece);
    }
    if (end != std::string_view::npos) {
      pending.remove_prefix(end + 1);
      return true;
    }
    pending = {};
  }
  return any;
}

// Counts the line; true where it is one this job runs.
bool InputReader::State::finish_line(InputLine& line) {
  line.number = ++number;
  line.file_line = ++file_line;
  line.file = static_cast<int>(next_file) - 1;
  if (file_line == 1 && line.text.starts_with(kByteOrderMark)) {
    line.text.erase(0, kByteOrderMark.size());
  }
  if (!line.text.empty() && line.text.back() == '\r') line.text.pop_back();
  if ((number - 1) % options.shard.count != options.shard.index) return false;
  if (!line.too_long && is_blank(line.text)) return false;
  const auto seed = static_cast<std::uint64_t>(number - 1);
  line.hash = line.too_long ? line_hash.value() : hash64(line.text, seed);
  line.ordinal = ordinal++;
  return true;
}

InputReader::InputReader(InputOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  for (const std::string& path : state_->options.paths) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (path == "-" || error) {
      state_->bytes_total = 0;
      break;
    }
    state_->bytes_total += static_cast<std::int64_t>(size);
  }
}

InputReader::~InputReader() = default;
InputReader::InputReader(InputReader&&) noexcept = default;
InputReader& InputReader::operator=(InputReader&&) noexcept = default;

bool InputReader::next(InputLine& line) {
  State& state = *state_;
  while (true) {
    if (!state.source && !state.open_next()) return false;
    if (!state.read_line(line)) {
      state.bytes_before += state.source->bytes_read();
      state.source.reset();
    } else if (state.finish_line(line)) {
      return true;
    }
  }
}

std::string InputReader::place(const InputLine& line) const {
  const std::string& path = state_->options.paths[static_cast<std::size_t>(line.file)];
  return fmt::format("{}, line {}", path == "-" ? "standard input" : path, line.file_line);
}

std::int64_t InputReader::bytes_read() const {
  return state_->bytes_before + (state_->source ? state_->source->bytes_read() : 0);
}

std::int64_t InputReader::bytes_total() const {
  return state_->bytes_total;
}

}  // namespace headrace
