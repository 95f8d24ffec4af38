#include "partition/layer_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace headrace {
namespace {

std::vector<int> counts_of(const std::vector<IndexRange>& ranges) {
  std::vector<int> counts;
  for (const IndexRange& range : ranges) counts.push_back(range.size());
  return counts;
}

double largest_load(const std::vector<int>& counts, EndLoads ends) {
  double largest = 0.0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    double load = counts[s];
    if (s == 0) load += ends.embedding;
    if (s + 1 == counts.size()) load += ends.head;
    largest = std::max(largest, load);
  }
  return largest;
}

// The smallest largest load, by trying every split.
double best_by_search(int layers, int stages, EndLoads ends, std::vector<int> prefix = {}) {
  if (static_cast<int>(prefix.size()) == stages - 1) {
    prefix.push_back(layers);
    return largest_load(prefix, ends);
  }
  double best = 1e9;
  for (int take = 1; take <= layers; ++take) {
    std::vector<int> next = prefix;
    next.push_back(take);
    best = std::min(best, best_by_search(layers - take, stages, ends, next));
  }
  return best;
}

TEST(LayerSplit, AHeadOfEightLayersMovesLayersToTheFirstStage) {
  EXPECT_EQ(counts_of(split_layers(30, 2, {.embedding = 0.0, .head = 8.0})),
            (std::vector<int>{19, 11}));
}

TEST(LayerSplit, IsNeverWorseThanTheBestOfAllSplits) {
  for (int layers = 1; layers <= 9; ++layers) {
    for (int stages = 1; stages <= layers + 1; ++stages) {
      for (const double head : {0.0, 0.4, 1.0, 2.5, 7.0}) {
        const EndLoads ends{.embedding = 0.3, .head = head};
        const std::vector<int> counts = counts_of(split_layers(layers, stages, ends));
        EXPECT_DOUBLE_EQ(largest_load(counts, ends), best_by_search(layers, stages, ends))
            << layers << " layers, " << stages << " stages, head " << head;
      }
    }
  }
}

TEST(LayerSplit, AStageMayHoldOnlyTheHead) {
  EXPECT_EQ(counts_of(split_layers(3, 4, {})), (std::vector<int>{1, 1, 1, 0}));
  EXPECT_THROW(split_layers(3, 5, {}), std::invalid_argument);
  EXPECT_THROW(split_layers(3, 0, {}), std::invalid_argument);
}

TEST(LayerSplit, WrittenCountsMustAddUp) {
  EXPECT_EQ(split_by_counts({2, 1, 0}, 3).back().begin, 3);
  EXPECT_THROW(split_by_counts({2, 2}, 3), std::invalid_argument);
  EXPECT_THROW(split_by_counts({0, 3}, 3), std::invalid_argument);
  EXPECT_THROW(split_by_counts({4, -1}, 3), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
