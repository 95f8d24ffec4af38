#include "runtime/trace/loss_terms.h"

#include <gtest/gtest.h>

#include <numeric>

namespace headrace {
namespace {

std::int64_t of(const LossTerms& terms, LossTerm term) {
  return terms[static_cast<std::size_t>(term)];
}

TEST(LossTerms, AddUpToTheJobsTimeWhateverTheRankDidOfIt) {
  PhaseTimes times{};
  for (std::size_t i = 0; i < kNumPhases; ++i) times[i] = static_cast<std::int64_t>(i + 1) * 10;
  const std::int64_t recorded = std::accumulate(times.begin(), times.end(), std::int64_t{0});
  const RankStretch stretch{.job_begin_ns = 1000,
                            .begin_ns = 1300,
                            .worked_ns = 1300 + recorded,
                            .job_end_ns = 1300 + recorded + 77};
  const LossTerms terms = loss_terms(times, stretch);
  EXPECT_EQ(std::accumulate(terms.begin(), terms.end(), std::int64_t{0}),
            stretch.job_end_ns - stretch.job_begin_ns);
  EXPECT_EQ(of(terms, LossTerm::kTail), 77);
  // What the rank missed at the beginning is wait.
  EXPECT_EQ(of(terms, LossTerm::kWait), 300 + times[static_cast<std::size_t>(Phase::kWait)]);
}

TEST(LossTerms, TheHeadsProductsAreProducts) {
  PhaseTimes times{};
  times[static_cast<std::size_t>(Phase::kGemm)] = 5;
  times[static_cast<std::size_t>(Phase::kHeadGemm)] = 7;
  times[static_cast<std::size_t>(Phase::kSampling)] = 11;
  const LossTerms terms = loss_terms(times, {.worked_ns = 23, .job_end_ns = 23});
  EXPECT_EQ(of(terms, LossTerm::kGemm), 12);
  EXPECT_EQ(of(terms, LossTerm::kOther), 11);
}

}  // namespace
}  // namespace headrace
