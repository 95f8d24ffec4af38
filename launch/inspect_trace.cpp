// What a trace of --trace says: where each rank's time went.
#include <cmath>

#include "launch/inspect.h"
#include "runtime/trace/trace_file.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

// To the microsecond, so that few digits are shown.
double seconds(std::int64_t ns) {
  return std::round(static_cast<double>(ns) / 1e3) / 1e6;
}

ordered_json rank_facts(const TraceSummary::Rank& rank) {
  ordered_json terms;
  for (std::size_t i = 0; i < kNumLossTerms; ++i) {
    terms[std::string(loss_term_name(static_cast<LossTerm>(i)))] = seconds(rank.terms[i]);
  }
  ordered_json at_least = ordered_json::object();
  const LossTerms bounds = bound_terms(rank.bounds);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < kNumLossTerms; ++i) {
    if (bounds[i] == 0) continue;
    at_least[std::string(loss_term_name(static_cast<LossTerm>(i)))] = seconds(bounds[i]);
    total += bounds[i];
  }
  if (total > 0) at_least["all"] = seconds(total);
  ordered_json phases;
  for (std::size_t i = 0; i < kNumPhases; ++i) {
    if (rank.phases[i] > 0) {
      phases[std::string(phase_name(static_cast<Phase>(i)))] = seconds(rank.phases[i]);
    }
  }
  return {{"rank", rank.rank},       {"stage", rank.at.pipeline}, {"shard", rank.at.tensor},
          {"replica", rank.at.data}, {"host", rank.host},         {"terms_s", terms},
          {"phases_s", phases},      {"at_least_s", at_least}};
}

}  // namespace

Findings inspect_trace(const InspectOptions& options) {
  const TraceSummary trace = read_trace(options.path);
  Findings findings;
  findings.kind = "trace of a job";
  findings.facts["layout"] = trace.layout;
  findings.facts["ranks"] = trace.num_ranks;
  findings.facts["wall_s"] = seconds(trace.wall_ns);
  findings.facts["events"] = trace.num_events;
  std::int64_t dropped = 0;
  for (const TraceSummary::Rank& rank : trace.ranks) dropped += rank.num_dropped;
  if (dropped > 0) findings.facts["older_events_left_out"] = dropped;
  if (static_cast<int>(trace.ranks.size()) < trace.num_ranks) {
    findings.facts["ranks_in_the_trace"] = trace.ranks.size();
  }
  if (options.json) {
    for (const TraceSummary::Rank& rank : trace.ranks) {
      findings.facts["time"].push_back(rank_facts(rank));
    }
  } else {
    findings.table = loss_table(trace);
  }
  for (const std::string& problem : trace.problems) findings.problem(problem);
  return findings;
}

}  // namespace headrace
