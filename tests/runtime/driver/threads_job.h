// A whole job inside one process, for tests: every rank of a layout is a thread, channels are
// loopbacks, and rank 0 reads, answers and keeps the journal as in a real job.
#pragma once

#include <functional>
#include <string>

#include "partition/topology.h"
#include "runtime/driver/job_loop.h"

namespace headrace {

struct ThreadsJob {
  ParallelLayout layout;
  std::string model;      // a tiny one
  std::string tokenizer;  // another model's, where it has none; empty: its own
  std::string input;
  std::string output;
  int max_num_seqs = 8;
  int max_rows = 16;
  int num_blocks = 40;
  /// Asked by rank 0's loop; nonzero stops the job.
  std::function<int()> stop_requested = [] { return 0; };
};

/// Runs it to its end or stop; on kFinished the output is there.
LoopEnd run_threads_job(const ThreadsJob& job);

}  // namespace headrace
