// An output file as `compare` and `inspect` read it: OpenAI Batch output, one JSON object a line.
// Files may be larger than memory; one line is held at a time, and an index holds 32 bytes a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace headrace {

/// One line of an output.
// NOLINTNEXTLINE(bugprone-exception-escape): moving a json value asserts, it does not throw
struct Answer {
  nlohmann::json line;
  std::optional<std::string> custom_id;  // absent where the line says null
  std::int64_t line_number = 0;          // from 1
  std::uint64_t offset = 0;              // where the line begins, in bytes

  /// A request that ended in an error: no response, or one with a status of 400 or more.
  bool failed() const;
  /// How messages name it: the id in quotes, or "line N".
  std::string name() const;
};

/// Reads lines in order. Blank lines are skipped.
class AnswersFile {
 public:
  /// Throws std::invalid_argument where there is no such file, naming what there is instead (an
  /// unfinished job).
  explicit AnswersFile(const std::filesystem::path& path);

  /// Throws std::invalid_argument naming file and line for one that is not a line of an output.
  std::optional<Answer> next();

  /// Goes back to a line that next() returned before, by its offset and number.
  Answer at(std::uint64_t offset, std::int64_t line_number);

 private:
  std::optional<Answer> read_line();

  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t position_ = 0;  // of the next line
  std::int64_t line_number_ = 0;
};

/// Finds a line of another output by custom_id, each line once. Several lines with one id are found
/// in file order; lines without an id pair up in file order.
class AnswerIndex {
 public:
  /// Reads the whole file.
  explicit AnswerIndex(const std::filesystem::path& path);

  /// The partner of an answer of the other file, or nullopt. Call once for each, in its file's
  /// order.
  std::optional<Answer> take(const Answer& other);

  /// The answers that nobody took, in file order, up to `limit`.
  std::vector<Answer> left_over(std::size_t limit);

  std::int64_t num_lines() const { return static_cast<std::int64_t>(entries_.size()); }
  std::int64_t num_taken() const { return num_taken_; }
  std::int64_t num_failed() const { return num_failed_; }

 private:
  struct Entry {
    std::uint64_t hash;  // of the id, or of the ordinal among the lines without one
    std::uint64_t offset;
    std::int64_t line_number;
    std::int64_t taken;  // of the first entry of a hash: how many of its entries are taken
  };

  AnswersFile file_;
  std::vector<Entry> entries_;  // in order of hash, then offset
  std::int64_t num_taken_ = 0;
  std::int64_t num_failed_ = 0;
  std::int64_t num_unnamed_ = 0;  // lines without an id that take() was asked about
};

}  // namespace headrace
