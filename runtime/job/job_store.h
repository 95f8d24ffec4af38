// A job's files: the answers as they finish (OUTPUT.partial), the journal, the lock, and at the end
// OUTPUT in input order with OUTPUT.summary.json beside it. Survives a kill between any two system
// calls: the same command goes on and ends with the same bytes. JOURNAL.md has the states and
// bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/job/file_ops.h"
#include "runtime/job/input_reader.h"
#include "runtime/job/job_key.h"
#include "runtime/schedule/step_plan.h"

namespace headrace {

struct JobPaths {
  std::string output;
  std::string error_file;   // failed lines go here instead of into output; empty: into output
  std::string journal_dir;  // of journal and index spill; empty: beside output

  std::string partial() const { return output + ".partial"; }
  std::string lock() const { return output + ".lock"; }
  std::string summary() const { return output + ".summary.json"; }
  std::string journal() const;
  /// Everything that may not be an input, for check_inputs().
  std::vector<std::string> all() const;
};

struct JobOptions {
  JobPaths paths;
  JobKey key;
  bool overwrite = false;
  bool retry_failed = false;
  std::int64_t start_s = 0;  // local civil time of this start, seconds since the epoch
  std::size_t index_memory_bytes = 64U << 20;  // beyond it, the index lives in a file
  std::size_t compact_bytes = 64U << 20;       // garbage in the journal worth rewriting it
};

enum class JobState : std::uint8_t {
  kNew,       // nothing was there
  kResumed,   // a journal was there
  kFinished,  // OUTPUT is complete: read the input through begin_line() and end_input(), then exit
};

enum class LineState : std::uint8_t {
  kNew,       // to be run
  kStarted,   // take_saved() has tokens of it
  kFinished,  // has its output line; only its custom_id still counts
};

/// Tokens of the choices of a request that an earlier run did not finish; index = choice.
using SavedTokens = std::vector<std::vector<ScoredToken>>;

struct FinishedLine {
  std::int64_t ordinal = 0;
  bool answered = false;  // false: the line is an error
  std::int64_t num_prompt_tokens = 0;
  std::int64_t num_completion_tokens = 0;
};

struct JobCounts {
  std::int64_t num_answered = 0;
  std::int64_t num_failed = 0;
  std::int64_t num_prompt_tokens = 0;  // of answered lines, all runs together
  std::int64_t num_completion_tokens = 0;
};

/// One thread at a time. Failing system calls throw std::system_error; the store is dead
/// afterwards, its files are as a kill would have left them.
class JobStore {
 public:
  /// Takes the lock and finds out where the job stands. Throws std::invalid_argument, having
  /// changed nothing, where another process owns the output, the job key differs, OUTPUT is not a
  /// job's, or a journal is missing or damaged at its head.
  explicit JobStore(JobOptions options, FileOps& files = FileOps::system());
  ~JobStore();
  JobStore(JobStore&&) noexcept;
  JobStore& operator=(JobStore&&) noexcept;

  JobState state() const;
  /// start_s of the job's first start: the date its templates see.
  std::int64_t first_start_s() const;
  Hash128 job_key() const;
  const JobCounts& counts() const;
  /// One line a person can read about what was found ("resumed: 812 answered, 3 failed, ...");
  /// empty for a new job.
  std::string found() const;

  /// --retry-failed on a finished job (state() is kFinished, counts().num_failed > 0): reads the
  /// whole input with a reader of its own, checks it, and turns the job into a resumed one whose
  /// failed lines are new.
  void reopen_failed(InputReader& input);

  /// Every line, in order, before anything else about it. Throws std::invalid_argument where the
  /// line differs from what an earlier run saw; place is the reader's word for messages.
  LineState begin_line(const InputLine& line, const std::string& place = {});
  /// False where the custom_id came before. Every line that has one, in order, finished ones too.
  bool claim_custom_id(std::string_view custom_id);
  /// After the last line: throws std::invalid_argument where lines of an earlier run are missing.
  void end_input();

  /// Once for a kStarted line.
  SavedTokens take_saved(std::int64_t ordinal);

  /// New tokens of an unfinished choice, in order. first: how many it had before, saved ones
  /// included.
  struct TokenDelta {
    std::int64_t ordinal = 0;
    int choice = 0;
    int first = 0;
  };
  void add_tokens(const TokenDelta& delta, std::span<const ScoredToken> tokens);

  /// The line's output, without line end.
  void finish_line(const FinishedLine& finished, std::string_view output_line);

  /// Any JSON object of the caller's (elapsed time, resume cost): the last one comes back after a
  /// resume.
  void set_counters(const nlohmann::json& counters);
  nlohmann::json counters() const;

  /// To be called often with a steady clock: writes every 0.25 s, syncs every second, compacts the
  /// journal when most of it is garbage.
  void tick(double now_s);
  /// Writes and syncs everything: before a stop.
  void flush();

  /// All lines are finished: OUTPUT and its summary appear, journal, partial and lock vanish.
  /// details: the caller's fields of the summary (layout, wall time, latencies).
  void complete(const nlohmann::ordered_json& details);

  /// 0 or 3.
  int exit_code() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What `inspect OUTPUT` says. Reads only.
struct JobInspection {
  enum class Status : std::uint8_t { kNotAJob, kResumable, kComplete, kCompleteWithFailures };
  Status status = Status::kNotAJob;
  std::optional<std::string> owner;  // of the lock, while it is held
  JobCounts counts;
  JobKey key;
  std::string problem;    // where status is kNotAJob, why
  int exit_code() const;  // 2, 75, 0, 3
};
JobInspection inspect_job(const JobPaths& paths);

}  // namespace headrace
