// Where a thread's time goes: a stack of phases that the thread enters and leaves. Every nanosecond
// between start() and stop() counts for exactly one phase, the innermost, so that the totals add up
// to the time that passed. The latest spans are kept as well, for a timeline.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace headrace {

/// What a thread may be doing. The names are those of the timeline.
enum class Phase : std::uint8_t {
  kHost,  // nothing else: what the main loop does between the others
  kPlan,
  kResults,
  kLayers,  // of a step: what is left when its operators are taken out
  kSampling,
  kEmbed,
  kNorm,
  kGemm,
  kHeadGemm,
  kRope,
  kAttention,
  kActivation,
  kElementwise,
  kStatistics,
  kExchange,
  kReceive,
  kSend,
  kWait,
  kRead,
  kAnswer,
  kJournal,
};
inline constexpr std::size_t kNumPhases = static_cast<std::size_t>(Phase::kJournal) + 1;

std::string_view phase_name(Phase phase);
/// The phase of that name; throws std::invalid_argument.
Phase phase_named(std::string_view name);

/// Nanoseconds by phase.
using PhaseTimes = std::array<std::int64_t, kNumPhases>;

/// A stretch of one phase; inner ones lie within it. Steady-clock nanoseconds.
struct Span {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t step = 0;  // of the StepPlan; 0 where there is none
  std::int32_t rows = 0;  // of the step
  Phase phase = Phase::kHost;
};

/// Of one thread: only that thread may call it while it records. Its memory is taken once.
class SpanRecorder {
 public:
  /// Keeps the latest max_spans spans.
  explicit SpanRecorder(std::size_t max_spans);

  void start();
  /// Ends what is open. Nothing is recorded after it.
  void stop();

  void enter(Phase phase);
  /// Ends the innermost phase. That there is one is the caller's business: without it the program
  /// ends.
  void leave() noexcept;  // NOLINT(bugprone-exception-escape): meant to
  /// The same, but the time counts for the phase around it and no span is kept.
  void withdraw();

  /// Says that what the innermost phase does takes so long at least (operator_bound.h).
  void add_bound(std::int64_t ns);

  /// The step that the spans from here on belong to.
  void set_step(std::int64_t step, std::int32_t rows);
  /// Says that useful work has just ended; what comes after the last time is the tail.
  void mark_worked();

  Phase current() const { return stack_[depth_].phase; }

  std::int64_t begin_ns() const { return begin_ns_; }
  std::int64_t end_ns() const { return end_ns_; }
  /// The latest mark_worked(), or the start where there was none.
  std::int64_t worked_ns() const { return worked_ns_; }
  /// Up to worked_ns(): they add up to worked_ns() - begin_ns().
  const PhaseTimes& times() const { return worked_times_; }
  /// Of add_bound(), up to worked_ns().
  const PhaseTimes& bounds() const { return worked_bounds_; }
  /// The latest spans, by end.
  std::vector<Span> spans() const;
  /// Spans that were recorded and are not kept.
  std::int64_t num_dropped() const;

 private:
  struct Open {
    Phase phase = Phase::kHost;
    std::int64_t begin_ns = 0;
  };
  static constexpr std::size_t kMaxDepth = 8;

  void charge(std::int64_t now);
  void keep(const Span& span);

  std::vector<Span> ring_;
  std::int64_t num_spans_ = 0;
  std::array<Open, kMaxDepth> stack_{};  // the first one is kHost
  std::size_t depth_ = 0;
  PhaseTimes times_{};
  PhaseTimes worked_times_{};
  PhaseTimes bounds_{};
  PhaseTimes worked_bounds_{};
  std::int64_t charged_ns_ = 0;  // up to here all time has been given to a phase
  std::int64_t begin_ns_ = 0;
  std::int64_t end_ns_ = 0;
  std::int64_t worked_ns_ = 0;
  std::int64_t step_ = 0;
  std::int32_t rows_ = 0;
  bool recording_ = false;
};

/// Enters a phase while it lives. Does nothing without a recorder.
class ScopedPhase {
 public:
  ScopedPhase(SpanRecorder* recorder, Phase phase) : recorder_(recorder) {
    if (recorder_ != nullptr) recorder_->enter(phase);
  }
  ~ScopedPhase() { end(); }  // NOLINT(bugprone-exception-escape): see leave()
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;

  /// Leaves it before that.
  void end() {
    if (recorder_ != nullptr) recorder_->leave();
    recorder_ = nullptr;
  }
  /// Nothing came of it: see SpanRecorder::withdraw().
  void withdraw() {
    if (recorder_ != nullptr) recorder_->withdraw();
    recorder_ = nullptr;
  }

 private:
  SpanRecorder* recorder_;
};

}  // namespace headrace
