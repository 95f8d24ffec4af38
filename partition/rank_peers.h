// Who links to whom: the ranks that one rank exchanges messages with. Sums inside a stage go
// through its exchange, not over these links.
#pragma once

#include <optional>
#include <vector>

#include "partition/topology.h"

namespace headrace {

struct RankPeers {
  // Steps: a plan with hidden states from stage to stage, and from the head, the first rank of the
  // first stage, the plan alone to those who share that stage.
  std::optional<int> steps_from;
  std::optional<int> steps_to;
  std::optional<int> plans_from;
  std::vector<int> plans_to;
  // Results: from the first rank of the last stage to the head; none where the head is both.
  std::optional<int> results_from;
  std::optional<int> results_to;
  // Work, and reports the other way: between rank 0 and the heads of the other replicas.
  std::optional<int> work_from;
  std::vector<int> work_to;
};

RankPeers rank_peers(const Topology& topology);

}  // namespace headrace
