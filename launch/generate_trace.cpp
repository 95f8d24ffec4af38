#include "launch/generate_trace.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "comm/waiting.h"
#include "runtime/trace/trace_file.h"

namespace headrace {
namespace {

// Spans of the host thread: two for a token or so at most, far fewer in bulk.
constexpr std::size_t kHostSpans = std::size_t{1} << 16;

// Of all ranks in the file, some 100 bytes each. After a signal launchers give about 2 s.
constexpr std::size_t kFileSpans = std::size_t{1} << 21;
constexpr std::size_t kBriefFileSpans = std::size_t{1} << 18;

}  // namespace

JobTracer::JobTracer(const Environment& environment, const RankSetup& setup, PartialFile* file)
    : environment_(environment), setup_(setup), recorder_(*setup.recorder), file_(file) {
  const std::vector<int> nodes = environment.nodes();
  shares_clock_ = nodes[static_cast<std::size_t>(environment.rank())] == nodes[0];
  if (environment.rank() == 0) host_recorder_ = std::make_unique<SpanRecorder>(kHostSpans);
}

// Processes of one machine read one clock: better than any measuring.
ClockOffset JobTracer::offset_now() const {
  const ClockOffset measured = align_clock(environment_.world());
  return shares_clock_ ? ClockOffset{} : measured;
}

void JobTracer::start() {
  clock_.first = offset_now();
  clock_.first_ns = now_ns();
  environment_.world().barrier();  // rank 0 has asked all of them: all begin together
  recorder_.start();
}

RankTrace JobTracer::own_trace(std::size_t max_spans) {
  RankTrace trace = take_trace(recorder_, max_spans);
  trace.rank = environment_.rank();
  trace.at = setup_.at;
  trace.host = environment_.host();
  trace.clock = clock_;
  return trace;
}

void JobTracer::finish(bool brief) {
  recorder_.stop();
  const Communicator& world = environment_.world();
  clock_.last = offset_now();
  clock_.last_ns = now_ns();
  const std::size_t most = brief ? kBriefFileSpans : kFileSpans;
  const std::string given = std::to_string(most / static_cast<std::size_t>(world.size()));
  const std::size_t max_spans = std::stoull(world.broadcast(given, 0));
  std::vector<RankTrace> ranks;
  for (const std::string& bytes : world.gather(encode_trace(own_trace(max_spans)), 0)) {
    ranks.push_back(decode_trace(bytes));
  }
  if (file_ != nullptr) write(std::move(ranks));
}

void JobTracer::finish_alone() {
  recorder_.stop();
  write({own_trace(kBriefFileSpans)});
}

void JobTracer::write(std::vector<RankTrace> ranks) {
  const JobTrace trace{.layout = to_string(setup_.layout),
                       .num_micro_batches = setup_.num_micro_batches,
                       .ranks = std::move(ranks),
                       .num_ranks = environment_.num_ranks(),
                       .host_spans = host_recorder_->spans()};
  std::uint64_t at = 0;
  write_trace(trace, [&](std::string_view text) {
    file_->write_at(at, std::as_bytes(std::span(text)));
    at += text.size();
  });
  file_->commit();
}

}  // namespace headrace
