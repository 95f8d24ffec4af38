#include "partition/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace headrace {
namespace {

// The nodes of the ranks once the processes are placed.
std::vector<int> placed_nodes(const std::vector<int>& node_of, int tensor_size) {
  std::vector<int> nodes;
  for (const int process : place_ranks(node_of, tensor_size)) {
    nodes.push_back(node_of[static_cast<std::size_t>(process)]);
  }
  return nodes;
}

std::vector<int> torn_groups(const std::vector<int>& node_of, int tensor_size) {
  return groups_across_nodes(placed_nodes(node_of, tensor_size), tensor_size);
}

TEST(Placement, ProcessesDealtOutOverNodesComeTogetherByNode) {
  const std::vector<int> node_of{7, 9, 7, 9, 7, 9, 7, 9};
  EXPECT_EQ(place_ranks(node_of, 4), (std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_TRUE(torn_groups(node_of, 4).empty());
  EXPECT_EQ(groups_across_nodes(node_of, 4), (std::vector<int>{0, 4}));
}

TEST(Placement, UnevenNodesGiveWholeGroupsFirst) {
  const std::vector<int> node_of{0, 0, 0, 1, 1, 1, 1, 1};
  EXPECT_EQ(place_ranks(node_of, 2), (std::vector<int>{0, 1, 3, 4, 5, 6, 2, 7}));
  EXPECT_EQ(torn_groups(node_of, 2), std::vector<int>{6});
}

TEST(Placement, ProcessZeroStaysFirstOnANodeTooSmallForAGroup) {
  EXPECT_EQ(place_ranks({0, 1, 1, 1}, 2), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(torn_groups({0, 1, 1, 1}, 2), std::vector<int>{0});
}

TEST(Placement, WithoutTensorParallelismOnlyNodesAreBroughtTogether) {
  EXPECT_EQ(place_ranks({5, 6, 5}, 1), (std::vector<int>{0, 2, 1}));
}

TEST(Placement, EveryProcessHasOnePlaceAndNoGroupCrossesNodesWithoutNeed) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 2000; ++trial) {
    const int size = static_cast<int>(random() % 4) + 1;
    const int num_nodes = static_cast<int>(random() % 4) + 1;
    std::vector<int> node_of(static_cast<std::size_t>(size) * (random() % 5 + 1));
    for (int& node : node_of) node = static_cast<int>(random() % static_cast<unsigned>(num_nodes));
    const std::vector<int> order = place_ranks(node_of, size);
    std::vector<int> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], static_cast<int>(i));
    ASSERT_EQ(sorted.size(), node_of.size());
    ASSERT_EQ(order.front(), 0);
    const auto on_first = std::count(node_of.begin(), node_of.end(), node_of.front());
    if (on_first < size) continue;
    std::size_t whole = 0;
    for (int node = 0; node < num_nodes; ++node) {
      whole += static_cast<std::size_t>(std::count(node_of.begin(), node_of.end(), node)) /
               static_cast<std::size_t>(size);
    }
    ASSERT_LE(torn_groups(node_of, size).size(),
              node_of.size() / static_cast<std::size_t>(size) - whole);
  }
}

}  // namespace
}  // namespace headrace
