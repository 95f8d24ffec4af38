// Where the time of a job goes, from a short synthetic one: `headrace bench --model`.
#pragma once

#include <string>
#include <vector>

namespace headrace {

struct ModelBenchSettings {
  std::string model;
  int requests = 32;
  int prompt_tokens = 128;
  int output_tokens = 32;
  bool json = false;
  std::vector<std::string> generate_options;  // passed on as they are
};

/// Starts MPI, runs the job, and prints its terms on rank 0. Returns generate's exit code.
int run_model_bench(const ModelBenchSettings& settings);

}  // namespace headrace
