// A whole job with invented tokens: what a main loop does with reader, parser, builder and store.
// Each token is a function of line, choice and position, so every way to the end must give the same
// bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/job/job_store.h"

namespace headrace {

struct FakeJob {
  std::vector<std::string> inputs;
  JobOptions options;
  int max_active = 3;         // lines at a time
  int stop_after_steps = -1;  // leaves the loop, flushed, as a drained job does; -1: never
  double step_s = 0.3;        // of the clock that the store sees
  bool fail_all = false;      // every line is answered by an error
};

struct FakeResult {
  int exit_code = -1;  // 75: stopped
  JobState state = JobState::kNew;
  int num_steps = 0;
  std::int64_t num_sampled = 0;                  // tokens invented in this run
  std::map<std::int64_t, int> num_runs_of_line;  // lines started in this run, by number
};

/// Runs the job with the given file operations.
FakeResult run_fake_job(const FakeJob& job, FileOps& files);

/// Input with lines of every kind: several choices, prompts, log-probabilities, stop strings, bad
/// ones.
std::string fake_input(int num_lines);

}  // namespace headrace
