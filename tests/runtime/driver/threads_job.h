// A whole job inside one process, for tests: every rank of a layout is a thread, channels are
// loopbacks, and rank 0 reads, answers and keeps the journal as in a real job.
#pragma once

#include <functional>
#include <string>

#include "model/config.h"
#include "partition/topology.h"
#include "runtime/driver/job_loop.h"
#include "runtime/schedule/scheduler.h"

namespace headrace {

struct ThreadsJob {
  ParallelLayout layout;
  std::string model;           // a tiny one
  std::string tokenizer = {};  // of another model, where this one has none
  std::string input;
  std::string output;
  int max_num_seqs = 8;
  int max_rows = 16;
  int num_blocks = 40;
  int max_model_len = 128;
  int slow_replica = -1;  // this one computes with the reference backend
  /// Asked by rank 0's loop; nonzero stops the job.
  std::function<int()> stop_requested = [] { return 0; };
};

struct ThreadsJobEnd {
  LoopEnd end = LoopEnd::kFinished;
  HostCounts counts;
};

/// What its schedulers are given.
SchedulerLimits limits_of(const ThreadsJob& job, const ModelConfig& config);

/// Runs it to its end or stop; on kFinished the output is there.
ThreadsJobEnd run_threads_job(const ThreadsJob& job);

}  // namespace headrace
