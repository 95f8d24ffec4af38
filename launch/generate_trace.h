// The life of --trace on one rank: recorders, clocks, and the way of what they hold to rank 0's
// file.
#pragma once

#include <memory>

#include "comm/environment.h"
#include "launch/generate_setup.h"
#include "model/checkpoint/partial_file.h"
#include "runtime/trace/rank_trace.h"

namespace headrace {

class JobTracer {
 public:
  /// setup has a recorder. file: of rank 0; null on the others. Collective over the world.
  JobTracer(const Environment& environment, const RankSetup& setup, PartialFile* file);

  /// From here on time is recorded. Collective over the world.
  void start();

  /// Of rank 0's host thread.
  SpanRecorder* host_recorder() { return host_recorder_.get(); }

  /// Rank 0 gets what all recorded and writes it; the host thread has ended. Collective over the
  /// world. brief: keep it short, since someone may kill the job soon; rank 0's word counts.
  void finish(bool brief);

  /// Rank 0 writes what it has itself: the others cannot answer any more.
  void finish_alone();

 private:
  ClockOffset offset_now() const;
  RankTrace own_trace(std::size_t max_spans);
  void write(std::vector<RankTrace> ranks);

  const Environment& environment_;
  const RankSetup& setup_;
  SpanRecorder& recorder_;
  PartialFile* file_;
  std::unique_ptr<SpanRecorder> host_recorder_;
  ClockMap clock_;
  bool shares_clock_ = false;  // with rank 0
};

}  // namespace headrace
