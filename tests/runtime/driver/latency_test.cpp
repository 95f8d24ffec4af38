#include "runtime/driver/latency.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

TEST(LatencyDistribution, PercentilesAreWithinOnePercent) {
  LatencyDistribution latencies;
  for (int i = 1; i <= 1000; ++i) latencies.add(i * 1e-3);
  const LatencyDistribution::Summary s = latencies.summary();
  EXPECT_EQ(s.count, 1000);
  EXPECT_NEAR(s.mean_s, 0.5005, 1e-9);
  EXPECT_NEAR(s.median_s, 0.5, 0.006);
  EXPECT_NEAR(s.p95_s, 0.95, 0.011);
  EXPECT_DOUBLE_EQ(s.min_s, 1e-3);
  EXPECT_DOUBLE_EQ(s.max_s, 1.0);
  EXPECT_NEAR(s.std_s, 0.28867, 1e-4);
}

TEST(LatencyDistribution, OneValueIsEveryPercentile) {
  LatencyDistribution latencies;
  latencies.add(0.25);
  EXPECT_DOUBLE_EQ(latencies.summary().median_s, 0.25);
  EXPECT_DOUBLE_EQ(latencies.summary().p95_s, 0.25);
  EXPECT_DOUBLE_EQ(latencies.summary().std_s, 0.0);
}

TEST(LatencyDistribution, NothingIsAllZero) {
  EXPECT_EQ(LatencyDistribution().summary().count, 0);
}

TEST(LatencyDistribution, ValuesOutsideTheBucketsAreKeptAtTheEnds) {
  LatencyDistribution latencies;
  latencies.add(0.0);
  latencies.add(1e7);
  EXPECT_DOUBLE_EQ(latencies.summary().max_s, 1e7);
  EXPECT_DOUBLE_EQ(latencies.summary().min_s, 0.0);
}

}  // namespace
}  // namespace headrace
