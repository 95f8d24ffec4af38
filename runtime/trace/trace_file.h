// The file of --trace: Chrome's JSON of trace events, which Perfetto shows as a timeline, with what
// Headrace itself needs to know in its first line.
//
//   {"headrace":{...},"displayTimeUnit":"ms","traceEvents":[
//   {"ph":"M",...},                     a line an event: names of processes (ranks) and threads
//   {"ph":"X","pid":1,"tid":0,"ts":12.345,"dur":3.210,"name":"gemm","args":{...}},
//   ...
//   {}]}
//
// A process is a rank, thread 0 its main thread, thread 1 of rank 0 the host thread. Times are
// microseconds from the job's begin, on rank 0's clock. The first line holds layout, wall_ns and
// for every rank its place, terms_ns (they add up to wall_ns), phases_ns and bounds_ns (what
// products and attention take at least, where the machine's peaks are known), exact for the whole
// job even where the timeline keeps only its last spans.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trace/loss_terms.h"
#include "runtime/trace/rank_trace.h"

namespace headrace {

struct JobTrace {
  std::string layout;  // "2x1x1"
  int num_micro_batches = 1;
  std::vector<RankTrace> ranks;  // rank 0 first; alone where the others could not tell any more
  int num_ranks = 1;             // of the job
  std::vector<Span> host_spans;  // of rank 0's host thread
};

/// Gives the file piece by piece.
void write_trace(const JobTrace& trace, const std::function<void(std::string_view)>& write);

/// What a trace says, without its timeline.
struct TraceSummary {
  struct Rank {
    int rank = 0;
    Coordinates at;
    std::string host;
    LossTerms terms{};
    PhaseTimes phases{};
    PhaseTimes bounds{};
    std::int64_t num_dropped = 0;
  };
  std::string layout;
  int num_ranks = 0;  // of the job; ranks holds those that are in the trace
  std::int64_t wall_ns = 0;
  std::int64_t num_events = 0;
  std::vector<Rank> ranks;
  std::vector<std::string> problems;  // "line 7: ..."; empty: sound
};

/// Whether the file begins as one written here does.
bool is_trace(const std::filesystem::path& path);

/// Reads all of it. Throws std::invalid_argument where the first line cannot be used.
TraceSummary read_trace(const std::filesystem::path& path);

/// The terms of every rank as a table: seconds and percent of the wall time, and below, where that
/// is known, what they take at least and what percent of the time above that is.
std::string loss_table(const TraceSummary& trace);

}  // namespace headrace
