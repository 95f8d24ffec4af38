// What a finished or stopped job says about itself: for a person, and for OUTPUT.summary.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "partition/topology.h"
#include "runtime/dispatch/work_message.h"
#include "runtime/driver/host_side.h"
#include "runtime/pipeline/stage_executor.h"
#include "runtime/pipeline/stage_times.h"

namespace headrace {

/// What a rank tells rank 0 at the end.
struct RankReport {
  Coordinates at;
  StageTimes times;
  std::uint64_t weight_bytes = 0;  // planned, as is kv_cache_bytes
  std::uint64_t kv_cache_bytes = 0;
  std::uint64_t loading_peak_bytes = 0;  // of memory, by the time the weights were there
  std::uint64_t peak_memory_bytes = 0;
  int num_threads = 0;
  DrawCounts draws;
  std::string host;
};

std::string encode_report(const RankReport& report);
RankReport decode_report(const std::string& text);

struct RunReport {
  std::string layout;       // "2x1x1"
  std::vector<int> layers;  // by stage
  double wall_s = 0.0;      // of this run's loop
  double load_s = 0.0;      // of reading the weights
  double start_up_s = 0.0;  // from the program's start to the first sampled token; 0: none came
  HostCounts counts;
  HostLatencies latencies;
  std::vector<ReplicaView> replicas;
  std::vector<RankReport> ranks;  // in order of rank
};

nlohmann::ordered_json summary_json(const RunReport& report);
std::string summary_text(const RunReport& report);

}  // namespace headrace
