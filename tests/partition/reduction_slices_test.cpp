#include "partition/reduction_slices.h"

#include <gtest/gtest.h>

#include <numeric>

namespace headrace {
namespace {

TEST(ReductionSlices, EveryTreeEndsWithOneValue) {
  for (int n = 1; n <= 70; ++n) {
    const std::vector<std::int32_t> merges = bisect_merges(n);
    int depth = 0;
    for (const std::int32_t m : merges) {
      depth += 1 - m;
      ASSERT_GE(depth, 1) << n;
    }
    EXPECT_EQ(depth, 1) << n;
  }
}

TEST(ReductionSlices, FiveSlicesAreThreePlusTwo) {
  // ((0 + 1) + 2) + (3 + 4)
  EXPECT_EQ(bisect_merges(5), (std::vector<std::int32_t>{0, 1, 1, 0, 2}));
}

TEST(ReductionSlices, AttentionHeadsAreSummedInsideTheirGroupFirst) {
  // 9 heads in 3 groups: ((0+1)+2), ((3+4)+5), ((6+7)+8); then (g0 + g1) + g2.
  const ReductionSlices slices = attention_output_slices(9, 3, 64);
  EXPECT_EQ(slices.merges, (std::vector<std::int32_t>{0, 1, 1, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(slices.bounds.back(), 576);
}

TEST(ReductionSlices, DownProjectionFollowsTheDocumentedWidths) {
  EXPECT_EQ(mlp_down_slices(1536).merges.size(), 8U);
  EXPECT_EQ(mlp_down_slices(4864).merges.size(), 16U);
  EXPECT_EQ(mlp_down_slices(14336).merges.size(), 32U);
  EXPECT_EQ(mlp_down_slices(11008).bounds[1], 320);
  EXPECT_EQ(mlp_down_slices(11008).bounds.back(), 11008);
}

TEST(ReductionSlices, NoSliceIsEmpty) {
  for (int size = 1; size < 5000; ++size) {
    const ReductionSlices slices = mlp_down_slices(size);
    for (std::size_t i = 0; i + 1 < slices.bounds.size(); ++i) {
      ASSERT_LT(slices.bounds[i], slices.bounds[i + 1]) << size;
    }
  }
}

}  // namespace
}  // namespace headrace
