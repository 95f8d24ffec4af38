#include "runtime/trace/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace headrace {
namespace {

using nlohmann::ordered_json;

/// The job's begin and end on rank 0's clock.
struct Extent {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

Extent extent_of(const JobTrace& trace) {
  const RankTrace& root = trace.ranks.front();
  Extent extent{.begin_ns = root.begin_ns, .end_ns = root.end_ns};
  for (const RankTrace& rank : trace.ranks) {
    extent.begin_ns = std::min(extent.begin_ns, rank.clock.to_root(rank.begin_ns));
    extent.end_ns = std::max(extent.end_ns, rank.clock.to_root(rank.end_ns));
  }
  return extent;
}

// The rank's own stretch has its length on the rank's own clock, so that the terms add up exactly
// where clocks drift.
LossTerms terms_of(const RankTrace& rank, const Extent& extent) {
  const std::int64_t begin = rank.clock.to_root(rank.begin_ns);
  return loss_terms(rank.times, {.job_begin_ns = extent.begin_ns,
                                 .begin_ns = begin,
                                 .worked_ns = begin + (rank.worked_ns - rank.begin_ns),
                                 .job_end_ns = extent.end_ns});
}

// Those that are not 0, by name.
ordered_json phases_json(const PhaseTimes& times) {
  ordered_json phases = ordered_json::object();
  for (std::size_t i = 0; i < kNumPhases; ++i) {
    if (times[i] > 0) phases[std::string(phase_name(static_cast<Phase>(i)))] = times[i];
  }
  return phases;
}

ordered_json rank_json(const RankTrace& rank, const Extent& extent) {
  ordered_json terms;
  const LossTerms values = terms_of(rank, extent);
  for (std::size_t i = 0; i < kNumLossTerms; ++i) {
    terms[std::string(loss_term_name(static_cast<LossTerm>(i)))] = values[i];
  }
  return {{"rank", rank.rank},
          {"replica", rank.at.data},
          {"stage", rank.at.pipeline},
          {"tensor", rank.at.tensor},
          {"host", rank.host},
          {"worked_ns", rank.clock.to_root(rank.worked_ns) - extent.begin_ns},
          {"clock_error_ns", std::max(rank.clock.first.error_ns, rank.clock.last.error_ns)},
          {"dropped_spans", rank.num_dropped},
          {"terms_ns", terms},
          {"phases_ns", phases_json(rank.times)},
          {"bounds_ns", phases_json(rank.bounds)}};
}

/// Collects lines and hands them on in large pieces.
class LineWriter {
 public:
  explicit LineWriter(const std::function<void(std::string_view)>& write) : write_(write) {}
  ~LineWriter() = default;
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  void put(std::string_view text) {
    buffer_.append(text);
    if (buffer_.size() > kPiece) flush();
  }

  void flush() {
    write_(std::string_view(buffer_.data(), buffer_.size()));
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kPiece = 1 << 20;
  const std::function<void(std::string_view)>& write_;
  fmt::memory_buffer buffer_;
};

struct Track {
  int process = 0;
  int thread = 0;
};

void put_name(LineWriter& out, Track track, std::string_view what, std::string_view name) {
  out.put(ordered_json{{"ph", "M"},
                       {"pid", track.process},
                       {"tid", track.thread},
                       {"name", what},
                       {"args", {{"name", name}}}}
              .dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  out.put(",\n");
}

// Nanoseconds as microseconds with all digits.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

void put_span(LineWriter& out, Track track, const Span& span, int num_micro_batches) {
  const LossTerm term = loss_term_of(span.phase);
  std::string args;
  if (term != LossTerm::kWait && term != LossTerm::kHost && span.step >= 0) {
    args = fmt::format(R"(,"args":{{"step":{},"micro_batch":{},"rows":{}}})", span.step,
                       span.step % num_micro_batches, span.rows);
  }
  out.put(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","cat":"{}"{}}},)"
                      "\n",
                      track.process, track.thread, microseconds(span.begin_ns),
                      microseconds(span.end_ns - span.begin_ns), phase_name(span.phase),
                      loss_term_name(term), args));
}

std::string place_name(const RankTrace& rank, const JobTrace& trace) {
  return fmt::format("rank {}: stage {}, shard {}, replica {} of {}, on {}", rank.rank,
                     rank.at.pipeline, rank.at.tensor, rank.at.data, trace.layout, rank.host);
}

void put_rank(LineWriter& out, const JobTrace& trace, const RankTrace& rank, const Extent& extent) {
  const Track track{.process = rank.rank};
  put_name(out, track, "process_name", place_name(rank, trace));
  put_name(out, track, "thread_name", "main");
  for (Span span : rank.spans) {
    span.begin_ns = rank.clock.to_root(span.begin_ns) - extent.begin_ns;
    span.end_ns = rank.clock.to_root(span.end_ns) - extent.begin_ns;
    put_span(out, track, span, trace.num_micro_batches);
  }
}

void put_host_thread(LineWriter& out, const JobTrace& trace, const Extent& extent) {
  const Track track{.process = 0, .thread = 1};
  put_name(out, track, "thread_name", "host: reading and answering");
  for (Span span : trace.host_spans) {
    // The thread starts a moment before the main one records.
    span.begin_ns = std::max(span.begin_ns, extent.begin_ns) - extent.begin_ns;
    span.end_ns = std::max(span.end_ns, extent.begin_ns) - extent.begin_ns;
    put_span(out, track, span, trace.num_micro_batches);
  }
}

}  // namespace

void write_trace(const JobTrace& trace, const std::function<void(std::string_view)>& write) {
  const Extent extent = extent_of(trace);
  ordered_json head = {{"layout", trace.layout},
                       {"micro_batches", trace.num_micro_batches},
                       {"num_ranks", trace.num_ranks},
                       {"wall_ns", extent.end_ns - extent.begin_ns}};
  for (const RankTrace& rank : trace.ranks) head["ranks"].push_back(rank_json(rank, extent));
  LineWriter out(write);
  const auto text = head.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  out.put(fmt::format(R"({{"headrace":{},"displayTimeUnit":"ms","traceEvents":[)"
                      "\n",
                      text));
  for (const RankTrace& rank : trace.ranks) put_rank(out, trace, rank, extent);
  put_host_thread(out, trace, extent);
  out.put("{}]}\n");
  out.flush();
}

}  // namespace headrace
