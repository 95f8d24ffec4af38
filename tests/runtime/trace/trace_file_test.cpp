#include "runtime/trace/trace_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "tests/runtime/job/temporary_directory.h"

namespace headrace {
namespace {

using nlohmann::json;

constexpr std::int64_t kMinute_ns = 60'000'000'000;

void spend_in(SpanRecorder& recorder, Phase phase) {
  const ScopedPhase scope(&recorder, phase);
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
  while (std::chrono::steady_clock::now() < end) {
  }
}

/// A rank that waited, computed two steps, sent them on, and idled.
RankTrace recorded_rank(int rank, std::size_t max_spans) {
  SpanRecorder recorder(max_spans);
  recorder.start();
  for (int step = 0; step < 2; ++step) {
    spend_in(recorder, Phase::kWait);
    recorder.set_step(step, 5);
    {
      const ScopedPhase layers(&recorder, Phase::kLayers);
      spend_in(recorder, Phase::kGemm);
      spend_in(recorder, Phase::kAttention);
    }
    spend_in(recorder, Phase::kSend);
    recorder.mark_worked();
  }
  spend_in(recorder, Phase::kWait);
  recorder.stop();
  RankTrace trace = take_trace(recorder, max_spans);
  trace.rank = rank;
  trace.at.pipeline = rank;
  trace.host = "a\"b";  // needs escaping
  return trace;
}

void put_clock_off(RankTrace& trace) {
  trace.clock.first.offset_ns = trace.clock.last.offset_ns = -kMinute_ns;
  for (std::int64_t* time : {&trace.begin_ns, &trace.worked_ns, &trace.end_ns}) *time += kMinute_ns;
  for (Span& span : trace.spans) {
    span.begin_ns += kMinute_ns;
    span.end_ns += kMinute_ns;
  }
}

JobTrace example(std::size_t max_spans = 100) {
  JobTrace trace;
  trace.layout = "2x1x1";
  trace.num_micro_batches = 2;
  trace.num_ranks = 2;
  trace.ranks = {recorded_rank(0, max_spans), recorded_rank(1, max_spans)};
  put_clock_off(trace.ranks[1]);
  const std::int64_t begin = trace.ranks[0].begin_ns;
  trace.host_spans = {{.begin_ns = begin - 10, .end_ns = begin + 500, .phase = Phase::kRead}};
  return trace;
}

class TraceFile : public testing::Test {
 protected:
  void write(const JobTrace& trace) {
    std::string text;
    write_trace(trace, [&](std::string_view piece) { text += piece; });
    write_text(text);
  }
  void write_text(const std::string& text) { path_ = directory_.write("trace.json", text); }
  std::string text() const { return read_file(path_); }
  void replace(const std::string& from, const std::string& to) {
    std::string changed = text();
    const std::size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_text(changed.replace(at, from.size(), to));
  }
  bool has_problem(const std::string& part) const {
    for (const std::string& problem : read_trace(path_).problems) {
      if (problem.find(part) != std::string::npos) return true;
    }
    return false;
  }

  TemporaryDirectory directory_;
  std::string path_;
};

TEST_F(TraceFile, IsJsonOfTraceEventsWithATrackForEveryRankAndOneForTheHostThread) {
  write(example());
  const json all = json::parse(text());
  std::set<std::pair<int, int>> tracks;
  int gemms = 0;
  for (const json& event : all.at("traceEvents")) {
    if (event.empty() || event.at("ph") != "X") continue;
    tracks.emplace(event.at("pid"), event.at("tid"));
    EXPECT_GE(event.at("ts").get<double>(), 0.0);
    EXPECT_GE(event.at("dur").get<double>(), 0.0);
    if (event.at("name") != "gemm") continue;
    ++gemms;
    EXPECT_EQ(event.at("args").at("micro_batch"), event.at("args").at("step"));
    EXPECT_EQ(event.at("args").at("rows"), 5);
  }
  EXPECT_EQ(tracks, (std::set<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 0}}));
  EXPECT_EQ(gemms, 4);
}

TEST_F(TraceFile, ReadsBackWithTermsThatAddUpToTheWallTime) {
  const JobTrace trace = example();
  write(trace);
  EXPECT_TRUE(is_trace(path_));
  const TraceSummary summary = read_trace(path_);
  EXPECT_EQ(summary.problems, std::vector<std::string>());
  EXPECT_EQ(summary.layout, "2x1x1");
  ASSERT_EQ(summary.ranks.size(), 2U);
  // Rank 1 began after rank 0 had ended, and ended last.
  const RankTrace& root = trace.ranks[0];
  EXPECT_EQ(summary.wall_ns, trace.ranks[1].end_ns - kMinute_ns - root.begin_ns);
  for (const TraceSummary::Rank& rank : summary.ranks) {
    std::int64_t sum = 0;
    for (const std::int64_t term : rank.terms) sum += term;
    EXPECT_EQ(sum, summary.wall_ns);
    EXPECT_EQ(rank.host, "a\"b");
  }
  const auto wait = static_cast<std::size_t>(LossTerm::kWait);
  EXPECT_GE(summary.ranks[1].terms[wait], root.end_ns - root.begin_ns);
  EXPECT_NE(loss_table(summary).find("rank 1 (1.0.0)"), std::string::npos);
}

TEST_F(TraceFile, WhatATermTakesAtLeastStandsBelowIt) {
  JobTrace trace = example();
  trace.ranks[1].bounds[static_cast<std::size_t>(Phase::kGemm)] = 3'000'000;
  trace.ranks[1].bounds[static_cast<std::size_t>(Phase::kHeadGemm)] = 1'000'000;
  write(trace);
  const TraceSummary summary = read_trace(path_);
  EXPECT_EQ(summary.problems, std::vector<std::string>());
  EXPECT_EQ(summary.ranks[0].bounds, PhaseTimes{});
  const LossTerms bounds = bound_terms(summary.ranks[1].bounds);
  EXPECT_EQ(bounds[static_cast<std::size_t>(LossTerm::kGemm)], 4'000'000);
  EXPECT_EQ(bounds[static_cast<std::size_t>(LossTerm::kAttention)], 0);
  const std::string table = loss_table(summary);
  const std::size_t row = table.find("\n  at least");
  ASSERT_NE(row, std::string::npos);
  EXPECT_GT(row, table.find("rank 1"));
  EXPECT_NE(table.find("0.004 (", row), std::string::npos);
  trace.ranks[1].bounds = {};
  write(trace);
  replace(",\"bounds_ns\":{}", "");  // of rank 0, as earlier versions wrote it
  EXPECT_EQ(loss_table(read_trace(path_)).find("at least"), std::string::npos);
}

TEST_F(TraceFile, DamageIsFound) {
  write(example());
  const std::string whole = text();
  write_text(whole.substr(0, whole.size() - 8));
  EXPECT_TRUE(has_problem("no event"));
  EXPECT_TRUE(has_problem("ends in the middle"));
  write_text(whole);
  replace("\"name\":\"attention\"", "\"name\":\"tea\"");
  EXPECT_TRUE(has_problem("no phase"));
  write_text(whole);
  replace("\"name\":\"attention\"", "\"name\":\"gemm\"");
  EXPECT_TRUE(has_problem("its events show"));
  write_text(whole);
  replace("\"tail\":", "\"tail\":1");
  EXPECT_TRUE(has_problem("add up to"));
  write_text(whole);
  replace("\"ph\":\"X\",\"pid\":1", "\"ph\":\"X\",\"pid\":9");
  EXPECT_TRUE(has_problem("none of the ranks"));
}

TEST_F(TraceFile, AFirstLineThatIsNoTracesIsRefused) {
  write_text("{\"headrace\":{\"layout\":3}\n");
  EXPECT_TRUE(is_trace(path_));
  EXPECT_THROW(read_trace(path_), std::invalid_argument);
  write_text("{\"prompt\":\"a\"}\n");
  EXPECT_FALSE(is_trace(path_));
}

TEST_F(TraceFile, TermsStayExactWhereTheTimelineKeepsOnlyItsEnd) {
  write(example(/*max_spans=*/3));
  const TraceSummary summary = read_trace(path_);
  EXPECT_EQ(summary.problems, std::vector<std::string>());
  EXPECT_GT(summary.ranks[0].num_dropped, 0);
  EXPECT_GT(summary.ranks[0].terms[static_cast<std::size_t>(LossTerm::kGemm)], 0);
}

}  // namespace
}  // namespace headrace
