#include "kernels/span_recorder.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

namespace headrace {
namespace {

constexpr std::array<std::string_view, kNumPhases> kNames = {
    "host",     "plan",      "results", "layers",    "sampling",   "embed",       "norm",
    "gemm",     "head gemm", "rope",    "attention", "activation", "elementwise", "statistics",
    "exchange", "receive",   "send",    "wait",      "read",       "answer",      "journal"};

// Pauses of a waiting thread are 50 microseconds long, with a look around between them: as spans of
// their own they would fill the ring with nothing.
constexpr std::int64_t kSameWait_ns = 20'000;

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// From leave(), which may run in a destructor, what is thrown here ends the process with its text.
void require_entered(std::size_t depth) {
  if (depth == 0) throw std::logic_error("a phase of a trace was left that nobody entered");
}

}  // namespace

std::string_view phase_name(Phase phase) {
  return kNames[static_cast<std::size_t>(phase)];
}

Phase phase_named(std::string_view name) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    throw std::invalid_argument("\"" + std::string(name) + "\" is no phase of a trace");
  }
  return static_cast<Phase>(found - kNames.begin());
}

SpanRecorder::SpanRecorder(std::size_t max_spans) : ring_(std::max<std::size_t>(max_spans, 1)) {}

void SpanRecorder::start() {
  begin_ns_ = worked_ns_ = charged_ns_ = steady_ns();
  recording_ = true;
}

void SpanRecorder::stop() {
  while (depth_ > 0) leave();
  end_ns_ = steady_ns();
  charge(end_ns_);
  recording_ = false;
}

// Gives the time since the last call to the innermost phase.
void SpanRecorder::charge(std::int64_t now) {
  times_[static_cast<std::size_t>(stack_[depth_].phase)] += now - charged_ns_;
  charged_ns_ = now;
}

void SpanRecorder::enter(Phase phase) {
  if (depth_ + 1 == kMaxDepth) throw std::logic_error("phases of a trace nested too deeply");
  if (!recording_) {
    stack_[++depth_] = {.phase = phase};
    return;
  }
  const std::int64_t now = steady_ns();
  charge(now);
  stack_[++depth_] = {.phase = phase, .begin_ns = now};
}

void SpanRecorder::leave() noexcept {  // NOLINT(bugprone-exception-escape): as said above
  require_entered(depth_);
  const Open open = stack_[depth_];
  if (recording_) {
    const std::int64_t now = steady_ns();
    charge(now);
    keep({.begin_ns = open.begin_ns,
          .end_ns = now,
          .step = step_,
          .rows = rows_,
          .phase = open.phase});
  }
  --depth_;
}

void SpanRecorder::withdraw() {
  require_entered(depth_);
  --depth_;
}

void SpanRecorder::keep(const Span& span) {
  const auto size = static_cast<std::int64_t>(ring_.size());
  if (num_spans_ > 0 && span.phase == Phase::kWait) {
    Span& last = ring_[static_cast<std::size_t>((num_spans_ - 1) % size)];
    if (last.phase == Phase::kWait && span.begin_ns - last.end_ns < kSameWait_ns) {
      last.end_ns = span.end_ns;
      return;
    }
  }
  ring_[static_cast<std::size_t>(num_spans_++ % size)] = span;
}

void SpanRecorder::add_bound(std::int64_t ns) {
  if (recording_) bounds_[static_cast<std::size_t>(current())] += ns;
}

void SpanRecorder::set_step(std::int64_t step, std::int32_t rows) {
  step_ = step;
  rows_ = rows;
}

void SpanRecorder::mark_worked() {
  if (!recording_) return;
  worked_ns_ = steady_ns();
  charge(worked_ns_);
  worked_times_ = times_;
  worked_bounds_ = bounds_;
}

std::vector<Span> SpanRecorder::spans() const {
  const auto size = static_cast<std::int64_t>(ring_.size());
  std::vector<Span> spans;
  spans.reserve(static_cast<std::size_t>(std::min(num_spans_, size)));
  for (std::int64_t i = std::max<std::int64_t>(0, num_spans_ - size); i < num_spans_; ++i) {
    spans.push_back(ring_[static_cast<std::size_t>(i % size)]);
  }
  return spans;
}

std::int64_t SpanRecorder::num_dropped() const {
  return std::max<std::int64_t>(0, num_spans_ - static_cast<std::int64_t>(ring_.size()));
}

}  // namespace headrace
