// Reads the lines of a job's input as a stream: several files, standard input, gzip and zstd, one
// shard of N. First stop of a request on its way to the scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace headrace {

/// --shard I/N: the lines whose number (0-based, over all inputs) is index modulo count.
struct Shard {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

/// "I/N" with 0 <= I < N; otherwise std::invalid_argument.
Shard parse_shard(const std::string& text);

/// A request line may have so many bytes: far more than any context, and what an endless line (a
/// zip bomb) may cost.
inline constexpr std::size_t kMaxLineBytes = 64U << 20;

/// Why a longer line is refused.
std::string line_too_long_text();

struct InputOptions {
  std::vector<std::string> paths;  // "-" is standard input; .gz and .zst are decompressed
  Shard shard;
  std::size_t max_line_bytes = kMaxLineBytes;
};

/// A request line. Blank lines are never given, but they are counted.
struct InputLine {
  std::int64_t ordinal = 0;    // among the lines this job reads: 0, 1, 2, ...
  std::int64_t number = 0;     // over all inputs, from 1: error messages, ids, sampling streams
  std::int64_t file_line = 0;  // in its own file, from 1
  int file = 0;                // index into InputOptions::paths
  std::uint64_t hash = 0;      // of number and content
  bool too_long = false;       // text is empty: the line exceeds max_line_bytes
  std::string text;            // without line end and byte order mark
};

/// Throws std::invalid_argument where an input is missing, unreadable, a directory, given twice as
/// standard input, or the same file as one of the job's own files. Reads nothing.
void check_inputs(const std::vector<std::string>& inputs,
                  const std::vector<std::string>& job_files);

/// One thread at a time. Holds one open file and one line.
class InputReader {
 public:
  /// Opens nothing yet; check_inputs() is the caller's first step.
  explicit InputReader(InputOptions options);
  ~InputReader();
  InputReader(InputReader&&) noexcept;
  InputReader& operator=(InputReader&&) noexcept;

  /// The next line into `line` (its buffer is reused); false at the end. Throws
  /// std::invalid_argument naming the file for damaged or truncated compressed data,
  /// std::system_error where reading fails.
  bool next(InputLine& line);

  /// "FILE, line N", for messages.
  std::string place(const InputLine& line) const;

  /// Position and size in bytes as stored (compressed); total is 0 where a size is unknown.
  std::int64_t bytes_read() const;
  std::int64_t bytes_total() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace
