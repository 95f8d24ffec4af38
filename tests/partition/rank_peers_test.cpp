#include "partition/rank_peers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace headrace {
namespace {

using Links = std::multiset<std::pair<int, int>>;  // from, to

struct Ends {
  Links sent;
  Links received;
};

void add(Links& links, int from, const std::vector<int>& to) {
  for (const int rank : to) links.emplace(from, rank);
}
void add_to(Links& links, int from, std::optional<int> to) {
  if (to) links.emplace(from, *to);
}
void add_from(Links& links, std::optional<int> from, int to) {
  if (from) links.emplace(*from, to);
}

TEST(RankPeers, EveryLinkHasBothItsEnds) {
  for (int p = 1; p <= 4; ++p) {
    for (int t = 1; t <= 3; ++t) {
      for (int d = 1; d <= 3; ++d) {
        const ParallelLayout layout{.pipeline = p, .tensor = t, .data = d};
        Ends steps;
        Ends plans;
        Ends results;
        Ends work;
        for (int rank = 0; rank < layout.num_ranks(); ++rank) {
          const RankPeers peers = rank_peers(Topology(layout, rank));
          add_to(steps.sent, rank, peers.steps_to);
          add_from(steps.received, peers.steps_from, rank);
          add(plans.sent, rank, peers.plans_to);
          add_from(plans.received, peers.plans_from, rank);
          add_to(results.sent, rank, peers.results_to);
          add_from(results.received, peers.results_from, rank);
          add(work.sent, rank, peers.work_to);
          add_from(work.received, peers.work_from, rank);
        }
        for (const Ends& ends : {steps, plans, results, work}) EXPECT_EQ(ends.sent, ends.received);
        EXPECT_EQ(std::ssize(steps.sent), (p - 1) * t * d);
        EXPECT_EQ(std::ssize(plans.sent), (t - 1) * d);
        EXPECT_EQ(std::ssize(results.sent), p > 1 ? d : 0);
        EXPECT_EQ(std::ssize(work.sent), d - 1);
      }
    }
  }
}

TEST(RankPeers, OfATwoByTwoByTwoJob) {
  const ParallelLayout layout{.pipeline = 2, .tensor = 2, .data = 2};
  const RankPeers root = rank_peers(Topology(layout, 0));
  EXPECT_EQ(root.steps_to, 2);
  EXPECT_EQ(root.plans_to, std::vector<int>{1});
  EXPECT_EQ(root.results_from, 2);
  EXPECT_EQ(root.work_to, std::vector<int>{4});
  const RankPeers last = rank_peers(Topology(layout, 6));
  EXPECT_EQ(last.steps_from, 4);
  EXPECT_EQ(last.results_to, 4);
  EXPECT_FALSE(last.work_from);
  EXPECT_EQ(rank_peers(Topology(layout, 4)).work_from, 0);
  EXPECT_EQ(rank_peers(Topology(layout, 5)).plans_from, 4);
}

}  // namespace
}  // namespace headrace
