#include "kernels/span_recorder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace headrace {
namespace {

void spend(int microseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

std::int64_t of(const PhaseTimes& times, Phase phase) {
  return times[static_cast<std::size_t>(phase)];
}

TEST(SpanRecorder, EveryNanosecondCountsForTheInnermostPhase) {
  SpanRecorder recorder(16);
  recorder.start();
  spend(300);
  recorder.enter(Phase::kLayers);
  spend(200);
  recorder.enter(Phase::kGemm);
  spend(1000);
  recorder.leave();
  recorder.leave();
  recorder.mark_worked();
  spend(500);
  recorder.stop();

  const PhaseTimes& times = recorder.times();
  EXPECT_EQ(std::accumulate(times.begin(), times.end(), std::int64_t{0}),
            recorder.worked_ns() - recorder.begin_ns());
  EXPECT_GE(of(times, Phase::kHost), 300'000);
  EXPECT_GE(of(times, Phase::kLayers), 200'000);
  EXPECT_GE(of(times, Phase::kGemm), 1'000'000);
  EXPECT_GE(recorder.end_ns() - recorder.worked_ns(), 500'000);
}

TEST(SpanRecorder, InnerSpansLieWithinOuterOnesAndCarryTheStep) {
  SpanRecorder recorder(16);
  recorder.start();
  recorder.set_step(7, 33);
  {
    const ScopedPhase layers(&recorder, Phase::kLayers);
    const ScopedPhase attention(&recorder, Phase::kAttention);
  }
  recorder.stop();
  const std::vector<Span> spans = recorder.spans();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].phase, Phase::kAttention);
  EXPECT_EQ(spans[1].phase, Phase::kLayers);
  EXPECT_LE(spans[1].begin_ns, spans[0].begin_ns);
  EXPECT_GE(spans[1].end_ns, spans[0].end_ns);
  EXPECT_EQ(spans[0].step, 7);
  EXPECT_EQ(spans[0].rows, 33);
}

TEST(SpanRecorder, KeepsTheLatestSpansAndCountsTheOthers) {
  SpanRecorder recorder(4);
  recorder.start();
  for (int i = 0; i < 10; ++i) {
    recorder.set_step(i, 1);
    const ScopedPhase phase(&recorder, Phase::kGemm);
  }
  recorder.stop();
  const std::vector<Span> spans = recorder.spans();
  ASSERT_EQ(spans.size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(spans[static_cast<std::size_t>(i)].step, 6 + i);
  EXPECT_EQ(recorder.num_dropped(), 6);
}

// Some pauses right after each other, and one later.
std::vector<Span> spans_of_pauses() {
  SpanRecorder recorder(16);
  recorder.start();
  for (int i = 0; i < 5; ++i) {
    const ScopedPhase wait(&recorder, Phase::kWait);
  }
  spend(200);
  { const ScopedPhase wait(&recorder, Phase::kWait); }
  recorder.stop();
  return recorder.spans();
}

TEST(SpanRecorder, PausesThatFollowEachOtherAreOneWait) {
  // A thread that loses its core between two of them has waits apart; not every time.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::vector<Span> spans = spans_of_pauses();
    ASSERT_GE(spans.size(), 2U);
    for (std::size_t i = 1; i < spans.size(); ++i) {
      ASSERT_GT(spans[i].begin_ns - spans[i - 1].end_ns, 20'000);
    }
    if (spans.size() == 2) return;
  }
  FAIL() << "pauses right after each other never became one wait";
}

TEST(SpanRecorder, APhaseThatIsWithdrawnLeavesNoSpan) {
  SpanRecorder recorder(16);
  recorder.start();
  ScopedPhase plan(&recorder, Phase::kPlan);
  spend(200);
  plan.withdraw();
  recorder.mark_worked();
  recorder.stop();
  EXPECT_TRUE(recorder.spans().empty());
  EXPECT_GE(of(recorder.times(), Phase::kHost), 200'000);
  EXPECT_EQ(of(recorder.times(), Phase::kPlan), 0);
}

TEST(SpanRecorder, RecordsNothingBeforeItStartsAndNothingAfterItStops) {
  SpanRecorder recorder(16);
  { const ScopedPhase before(&recorder, Phase::kGemm); }
  recorder.start();
  recorder.enter(Phase::kLayers);
  recorder.stop();
  { const ScopedPhase after(&recorder, Phase::kGemm); }
  ASSERT_EQ(recorder.spans().size(), 1U);
  EXPECT_EQ(recorder.spans()[0].phase, Phase::kLayers);
  EXPECT_DEATH(recorder.leave(), "nobody entered");
}

TEST(SpanRecorder, NamesOfPhasesAreReadBack) {
  for (std::size_t i = 0; i < kNumPhases; ++i) {
    EXPECT_EQ(phase_named(phase_name(static_cast<Phase>(i))), static_cast<Phase>(i));
  }
  EXPECT_THROW(phase_named("tea"), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
