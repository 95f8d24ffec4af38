#include "runtime/trace/rank_trace.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace headrace {
namespace {

RankTrace example() {
  RankTrace trace;
  trace.rank = 3;
  trace.at = {.data = 1, .pipeline = 0, .tensor = 1};
  trace.host = "node7";
  trace.clock = {.first_ns = 100,
                 .last_ns = 1100,
                 .first = {.offset_ns = 5000, .error_ns = 4},
                 .last = {.offset_ns = 5020, .error_ns = 6}};
  trace.begin_ns = 120;
  trace.worked_ns = 900;
  trace.end_ns = 1000;
  trace.times[static_cast<std::size_t>(Phase::kGemm)] = 780;
  trace.bounds[static_cast<std::size_t>(Phase::kGemm)] = 410;
  trace.num_dropped = 2;
  trace.spans = {{.begin_ns = 130, .end_ns = 140, .step = 9, .rows = 7, .phase = Phase::kWait},
                 {.begin_ns = 150, .end_ns = 190, .step = -1, .rows = 0, .phase = Phase::kJournal}};
  return trace;
}

TEST(RankTrace, ComesBackAsItWasSent) {
  const RankTrace sent = example();
  const RankTrace back = decode_trace(encode_trace(sent));
  EXPECT_EQ(back.rank, 3);
  EXPECT_EQ(back.at.data, 1);
  EXPECT_EQ(back.at.tensor, 1);
  EXPECT_EQ(back.host, "node7");
  EXPECT_EQ(back.clock.last.offset_ns, 5020);
  EXPECT_EQ(back.worked_ns, 900);
  EXPECT_EQ(back.times, sent.times);
  EXPECT_EQ(back.bounds, sent.bounds);
  EXPECT_EQ(back.num_dropped, 2);
  ASSERT_EQ(back.spans.size(), 2U);
  EXPECT_EQ(back.spans[0].step, 9);
  EXPECT_EQ(back.spans[0].rows, 7);
  EXPECT_EQ(back.spans[1].phase, Phase::kJournal);
  EXPECT_EQ(encode_trace(back), encode_trace(sent));
}

TEST(RankTrace, WhatIsCutOffOrUnknownIsRefused) {
  const std::string bytes = encode_trace(example());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decode_trace(bytes.substr(0, size)), std::runtime_error) << size;
  }
  std::string unknown = bytes;
  unknown.back() = static_cast<char>(kNumPhases);
  EXPECT_THROW(decode_trace(unknown), std::runtime_error);
}

TEST(RankTrace, TimesMoveToTheRootsClockWithItsDrift) {
  const ClockMap clock = example().clock;
  EXPECT_EQ(clock.to_root(100), 5100);
  EXPECT_EQ(clock.to_root(600), 5610);
  EXPECT_EQ(clock.to_root(1100), 6120);
  const ClockMap once{.first_ns = 100, .last_ns = 0, .first = {.offset_ns = 7}, .last = {}};
  EXPECT_EQ(once.to_root(50), 57);
}

TEST(RankTrace, WhatMayBeAnErrorOfMeasuringIsNoDrift) {
  ClockMap clock = example().clock;
  clock.last = {.offset_ns = 5010, .error_ns = 6};
  EXPECT_EQ(clock.to_root(1100), 6100);
  clock.last.error_ns = 3;  // the sum of both errors is 7
  EXPECT_EQ(clock.to_root(1100), 6110);
  clock.last = {.offset_ns = 5007, .error_ns = 3};
  EXPECT_EQ(clock.to_root(600), 5607);
}

TEST(RankTrace, KeepsTheLatestSpansWhereOnlySomeMayGo) {
  SpanRecorder recorder(8);
  recorder.start();
  for (int i = 0; i < 5; ++i) {
    recorder.set_step(i, 1);
    const ScopedPhase phase(&recorder, Phase::kGemm);
  }
  recorder.stop();
  const RankTrace trace = take_trace(recorder, 2);
  ASSERT_EQ(trace.spans.size(), 2U);
  EXPECT_EQ(trace.spans[0].step, 3);
  EXPECT_EQ(trace.num_dropped, 3);
}

}  // namespace
}  // namespace headrace
