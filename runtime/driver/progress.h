// What a person sees while a job runs: a bar that rewrites its line on a terminal, a line every few
// seconds elsewhere.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "runtime/dispatch/work_message.h"
#include "runtime/driver/host_side.h"
#include "runtime/pipeline/stage_times.h"

namespace headrace {

/// Everything a progress line is made of.
struct ProgressView {
  HostCounts host;
  std::vector<ReplicaView> replicas;
  int num_blocks = 0;  // of each
  double elapsed_s = 0.0;
};

class Progress {
 public:
  /// Writes to stream; rewrites one line where it is a terminal.
  explicit Progress(std::FILE* stream);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// True when it is time for another line.
  bool is_due(double elapsed_s) const { return elapsed_s >= next_s_; }
  void show(const ProgressView& view);
  /// Ends the rewritten line, so that other text can follow.
  void clear();

 private:
  std::FILE* stream_;
  bool terminal_;
  double next_s_;
  ProgressView before_;
};

/// One stage's shares of the time between two counts: "0:93/5/2" (busy/wait/transfer %).
std::string stage_shares(int stage, const StageTimes& from, const StageTimes& to);

/// "1h02m", "3m07s", "42s".
std::string duration_text(double seconds);

/// The line itself, without control characters; before: the view of the line before, for rates.
std::string progress_line(const ProgressView& view, const ProgressView& before);

}  // namespace headrace
