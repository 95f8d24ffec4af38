#include "launch/generate_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/memory_plan.h"
#include "runtime/driver/progress.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

double rate(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
}

struct Shares {
  double busy = 0.0;
  double wait = 0.0;
  double transfer = 0.0;
};

Shares shares_of(const StageTimes& times) {
  const double all =
      std::max<double>(static_cast<double>(times.busy_ns + times.wait_ns + times.transfer_ns), 1.0);
  return {.busy = 100.0 * static_cast<double>(times.busy_ns) / all,
          .wait = 100.0 * static_cast<double>(times.wait_ns) / all,
          .transfer = 100.0 * static_cast<double>(times.transfer_ns) / all};
}

double rounded(double value, double unit) {
  return static_cast<double>(std::llround(value / unit)) * unit;
}

Json latency_json(const LatencyDistribution& distribution) {
  const LatencyDistribution::Summary s = distribution.summary();
  const auto ms = [](double seconds) {
    return static_cast<double>(std::llround(seconds * 1e6)) / 1e3;
  };
  return {{"count", s.count},      {"mean_ms", ms(s.mean_s)}, {"median_ms", ms(s.median_s)},
          {"p95_ms", ms(s.p95_s)}, {"min_ms", ms(s.min_s)},   {"max_ms", ms(s.max_s)},
          {"std_ms", ms(s.std_s)}};
}

std::string latency_line(const char* name, const LatencyDistribution& distribution) {
  const LatencyDistribution::Summary s = distribution.summary();
  return fmt::format("  {:<22}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}\n", name,
                     s.mean_s * 1e3, s.median_s * 1e3, s.p95_s * 1e3, s.min_s * 1e3, s.max_s * 1e3,
                     s.std_s * 1e3);
}

struct Totals {
  std::int64_t steps = 0;
  std::int64_t rows = 0;
  std::int64_t host_ns = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t num_swapped_sequences = 0;
  std::int64_t num_swapped_blocks = 0;
  std::int64_t num_recomputed_tokens = 0;
};

Totals totals_of(const std::vector<ReplicaView>& replicas) {
  Totals totals;
  for (const ReplicaView& replica : replicas) {
    totals.steps += replica.head.steps;
    totals.rows += replica.head.rows;
    totals.host_ns += replica.head.host_ns;
    totals.num_preemptions += replica.scheduler.num_preemptions;
    totals.num_swapped_sequences += replica.scheduler.num_swapped_sequences;
    totals.num_swapped_blocks += replica.scheduler.num_swapped_blocks;
    totals.num_recomputed_tokens += replica.scheduler.num_recomputed_tokens;
  }
  return totals;
}

std::string swapped_text(const Totals& totals) {
  return totals.num_swapped_sequences == 0
             ? ""
             : fmt::format("{} sequences swapped out in {} blocks, ", totals.num_swapped_sequences,
                           totals.num_swapped_blocks);
}

int layers_of(const RunReport& report, const RankReport& rank) {
  return report.layers.at(static_cast<std::size_t>(rank.at.pipeline));
}

}  // namespace

std::string encode_report(const RankReport& report) {
  return Json{{"replica", report.at.data},
              {"stage", report.at.pipeline},
              {"shard", report.at.tensor},
              {"busy_ns", report.times.busy_ns},
              {"wait_ns", report.times.wait_ns},
              {"transfer_ns", report.times.transfer_ns},
              {"weight_bytes", report.weight_bytes},
              {"kv_cache_bytes", report.kv_cache_bytes},
              {"loading_peak_bytes", report.loading_peak_bytes},
              {"peak_memory_bytes", report.peak_memory_bytes},
              {"threads", report.num_threads},
              {"draws_from_leaders", report.draws.from_leaders},
              {"draws_from_rows", report.draws.from_rows},
              {"host", report.host}}
      .dump();
}

RankReport decode_report(const std::string& text) {
  const Json json = Json::parse(text);
  return {
      .at = {.data = json.at("replica"), .pipeline = json.at("stage"), .tensor = json.at("shard")},
      .times = {.busy_ns = json.at("busy_ns"),
                .wait_ns = json.at("wait_ns"),
                .transfer_ns = json.at("transfer_ns")},
      .weight_bytes = json.at("weight_bytes"),
      .kv_cache_bytes = json.at("kv_cache_bytes"),
      .loading_peak_bytes = json.at("loading_peak_bytes"),
      .peak_memory_bytes = json.at("peak_memory_bytes"),
      .num_threads = json.at("threads"),
      .draws = {.from_leaders = json.at("draws_from_leaders"),
                .from_rows = json.at("draws_from_rows")},
      .host = json.at("host")};
}

Json summary_json(const RunReport& r) {
  Json ranks = Json::array();
  for (const RankReport& rank : r.ranks) {
    const Shares shares = shares_of(rank.times);
    ranks.push_back({{"replica", rank.at.data},
                     {"stage", rank.at.pipeline},
                     {"shard", rank.at.tensor},
                     {"layers", layers_of(r, rank)},
                     {"host", rank.host},
                     {"threads", rank.num_threads},
                     {"busy_percent", rounded(shares.busy, 0.01)},
                     {"wait_percent", rounded(shares.wait, 0.01)},
                     {"transfer_percent", rounded(shares.transfer, 0.01)},
                     {"weight_bytes", rank.weight_bytes},
                     {"kv_cache_bytes", rank.kv_cache_bytes},
                     {"loading_peak_bytes", rank.loading_peak_bytes},
                     {"peak_memory_bytes", rank.peak_memory_bytes},
                     {"draws_from_leaders", rank.draws.from_leaders},
                     {"draws_from_rows", rank.draws.from_rows}});
  }
  const Totals totals = totals_of(r.replicas);
  return {{"layout", r.layout},
          {"wall_s", rounded(r.wall_s, 1e-3)},
          {"load_s", rounded(r.load_s, 1e-3)},
          {"start_up_s", rounded(r.start_up_s, 1e-3)},
          {"run_prompt_tokens", r.counts.num_run_prompt_tokens},
          {"run_completion_tokens", r.counts.num_run_tokens},
          {"resumed_tokens", r.counts.num_resumed_tokens},
          {"rebuilt_tokens", r.counts.num_rebuilt_tokens},
          {"output_tokens_per_s", rounded(rate(r.counts.num_run_tokens, r.wall_s), 0.01)},
          {"prompt_tokens_per_s", rounded(rate(r.counts.num_run_prompt_tokens, r.wall_s), 0.01)},
          {"steps", totals.steps},
          {"rows", totals.rows},
          {"host_ms_per_step", totals.steps > 0 ? static_cast<double>(totals.host_ns) / 1e6 /
                                                      static_cast<double>(totals.steps)
                                                : 0.0},
          {"preemptions", totals.num_preemptions},
          {"swapped_sequences", totals.num_swapped_sequences},
          {"swapped_blocks", totals.num_swapped_blocks},
          {"recomputed_tokens", totals.num_recomputed_tokens},
          {"moved_sequences", r.counts.num_moved_sequences},
          {"time_to_first_token", latency_json(r.latencies.first_token)},
          {"time_per_output_token", latency_json(r.latencies.per_output_token)},
          {"ranks", ranks}};
}

std::string summary_text(const RunReport& r) {
  std::string text = fmt::format(
      "{} answered, {} failed; this run: {} lines, {} prompt and {} output tokens in {} "
      "({:.1f} and {:.1f} tokens/s), loaded in {:.1f} s\n",
      r.counts.job.num_answered, r.counts.job.num_failed, r.counts.num_run_lines,
      r.counts.num_run_prompt_tokens, r.counts.num_run_tokens, duration_text(r.wall_s),
      rate(r.counts.num_run_prompt_tokens, r.wall_s), rate(r.counts.num_run_tokens, r.wall_s),
      r.load_s);
  if (r.start_up_s > 0.0) {
    text += fmt::format("first token {:.2f} s after the program's start\n", r.start_up_s);
  }
  if (r.counts.num_resumed_tokens > 0) {
    text +=
        fmt::format("resume cost: {} tokens taken over, {} computed again to rebuild their cache\n",
                    r.counts.num_resumed_tokens, r.counts.num_rebuilt_tokens);
  }
  const Totals totals = totals_of(r.replicas);
  if (totals.num_preemptions > 0) {
    text += fmt::format("KV cache full {} times: {}{} tokens computed again\n",
                        totals.num_preemptions, swapped_text(totals), totals.num_recomputed_tokens);
  }
  if (r.counts.num_moved_sequences > 0) {
    text += fmt::format("{} sequences moved from a slow replica to a faster one\n",
                        r.counts.num_moved_sequences);
  }
  text += fmt::format("  {:<22}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "milliseconds", "mean", "median",
                      "p95", "min", "max", "std");
  text += latency_line("time to first token", r.latencies.first_token);
  text += latency_line("time per output token", r.latencies.per_output_token);
  text +=
      fmt::format("  {:>7}{:>7}{:>7}{:>8}{:>9}{:>8}{:>8}{:>10}{:>13}  {}\n", "replica", "stage",
                  "shard", "layers", "threads", "busy", "wait", "transfer", "peak memory", "host");
  for (const RankReport& rank : r.ranks) {
    const Shares shares = shares_of(rank.times);
    text += fmt::format("  {:>7}{:>7}{:>7}{:>8}{:>9}{:>7.1f}%{:>7.1f}%{:>9.1f}%{:>13}  {}\n",
                        rank.at.data, rank.at.pipeline, rank.at.tensor, layers_of(r, rank),
                        rank.num_threads, shares.busy, shares.wait, shares.transfer,
                        bytes_text(rank.peak_memory_bytes), rank.host);
  }
  return text;
}

}  // namespace headrace
