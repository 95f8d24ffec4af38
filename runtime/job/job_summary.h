// OUTPUT.summary.json: what stays of a job beside its output.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/job/job_store.h"

namespace headrace {

struct JobSummary {
  JobKey key;
  std::int64_t first_start_s = 0;
  std::int64_t num_lines = 0;  // of the input
  Hash128 input_hash;          // ChainHash of their hashes
  JobCounts counts;
  std::int64_t output_bytes = 0;
  std::string error_file;  // empty: failed lines are in the output
  std::int64_t error_bytes = 0;
};

/// details: the caller's fields, added at the end.
std::string to_json(const JobSummary& summary, const nlohmann::ordered_json& details);

/// Throws std::invalid_argument naming file and key.
JobSummary read_summary(const std::filesystem::path& path);

}  // namespace headrace
