// An unfinished job: OUTPUT.partial, the journal, and what both say in memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/job/append_file.h"
#include "runtime/job/job_store.h"
#include "runtime/job/journal.h"
#include "runtime/job/line_index.h"

namespace headrace {

class JobRun {
 public:
  struct Place {
    const JobPaths& paths;
    FileOps& files;
    std::size_t compact_bytes;  // garbage in the journal worth a compaction
  };

  /// A new journal over an empty OUTPUT.partial.
  static JobRun start(const Place& place, SpillArena& arena, const JournalHeader& header);
  /// Reads the journal that is there. Throws std::invalid_argument, having changed nothing, where
  /// it is of another key or cannot be read.
  static JobRun resume(const Place& place, SpillArena& arena, const JobKey& key);

  const JournalHeader& header() const { return header_; }
  const LineIndex& lines() const { return lines_; }
  const JobCounts& counts() const { return counts_; }
  const AppendFile& partial() const { return partial_; }
  const std::string& counters() const { return counters_; }
  /// Answers that the journal names and OUTPUT.partial lacks (a machine stopped, not a process).
  std::int64_t num_lost() const { return num_lost_; }
  std::int64_t num_saved_tokens() const;
  std::int64_t num_saved_lines() const { return std::ssize(saved_); }

  /// --retry-failed: takes failed lines out, once for a job.
  void drop_failed();

  LineState begin_line(const InputLine& line, const std::string& place);
  SavedTokens take_saved(std::int64_t ordinal);
  void add_tokens(const JobStore::TokenDelta& delta, std::span<const ScoredToken> tokens);
  void finish_line(const FinishedLine& finished, std::string_view output_line);
  void set_counters(std::string json);

  void write();
  void sync();
  /// Rewrites the journal where most of it is garbage. Requires sync().
  void compact_if_worth();

 private:
  // Tokens of one choice that are not in the journal yet.
  struct Pending {
    std::int32_t choice = 0;
    std::int32_t first = 0;
    std::int32_t count = 0;
    std::string encoded;
  };
  struct ActiveLine {
    std::vector<Pending> pending;
    std::int64_t journal_bytes = 0;  // become garbage when the line finishes
  };
  struct SavedLine {
    SavedTokens choices;
  };

  JobRun(const Place& place, SpillArena& arena);

  void load(std::string_view payload);
  void load(const FinishedRecord& record);
  void load(TokensRecord record);
  bool partial_has(const FinishedRecord& record);
  void append_to_journal(std::string_view payload);
  void journal_pending(std::int64_t ordinal, ActiveLine& line);
  bool is_live(const JournalRecord& record) const;
  void compact();

  JobPaths paths_;
  FileOps* files_;
  std::int64_t compact_bytes_;
  JournalHeader header_;
  LineIndex lines_;
  JobCounts counts_;
  AppendFile partial_;
  AppendFile journal_;
  std::int64_t garbage_bytes_ = 0;  // of the journal
  std::int64_t partial_end_ = 0;    // while loading: of the last good line
  std::int64_t num_lost_ = 0;
  std::map<std::int64_t, ActiveLine> active_;
  std::map<std::int64_t, SavedLine> saved_;
  std::string counters_ = "{}";
  bool counters_changed_ = false;
};

}  // namespace headrace
