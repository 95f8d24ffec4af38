#include "partition/topology.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace headrace {
namespace {

TEST(Topology, CoordinatesAndRanksAreInverse) {
  const ParallelLayout layout{.pipeline = 3, .tensor = 2, .data = 4};
  for (int rank = 0; rank < layout.num_ranks(); ++rank) {
    const Topology topology(layout, rank);
    EXPECT_EQ(topology.rank_of(topology.coordinates()), rank);
  }
}

TEST(Topology, NeighboursHoldTheSameShard) {
  const Topology middle({.pipeline = 3, .tensor = 2, .data = 1}, 3);
  EXPECT_EQ(middle.stage(), 1);
  EXPECT_EQ(middle.upstream(), 1);
  EXPECT_EQ(middle.downstream(), 5);
  const Topology last({.pipeline = 3, .tensor = 2, .data = 2}, 5);
  EXPECT_TRUE(last.is_last_stage());
  EXPECT_FALSE(last.downstream().has_value());
}

TEST(Topology, MissingSizesFollowFromTheRanks) {
  const ParallelLayout all_stages = resolve_layout({0, 0, 0}, 4);
  EXPECT_EQ(to_string(all_stages), "4x1x1");
  EXPECT_EQ(to_string(resolve_layout({0, 2, 0}, 4)), "2x2x1");
  EXPECT_THROW(resolve_layout({3, 0, 0}, 4), std::invalid_argument);
  EXPECT_THROW(resolve_layout({0, 3, 0}, 4), std::invalid_argument);
}

TEST(Topology, RanksOutsideTheLayoutAreRefused) {
  EXPECT_THROW(Topology({2, 1, 1}, 2), std::invalid_argument);
  EXPECT_THROW(Topology({0, 1, 1}, 0), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
