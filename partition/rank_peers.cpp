#include "partition/rank_peers.h"

namespace headrace {

RankPeers rank_peers(const Topology& topology) {
  const ParallelLayout& layout = topology.layout();
  const Coordinates at = topology.coordinates();
  const auto rank_at = [&](int stage, int shard) {
    return topology.rank_of({.data = at.data, .pipeline = stage, .tensor = shard});
  };
  RankPeers peers;
  peers.steps_from = topology.upstream();
  peers.steps_to = topology.downstream();
  const bool first = topology.is_first_stage();
  if (first && at.tensor > 0) peers.plans_from = rank_at(0, 0);
  if (at.tensor > 0) return peers;
  if (!first && topology.is_last_stage()) peers.results_to = rank_at(0, 0);
  if (!first) return peers;

  for (int shard = 1; shard < layout.tensor; ++shard) peers.plans_to.push_back(rank_at(0, shard));
  if (layout.pipeline > 1) peers.results_from = rank_at(layout.pipeline - 1, 0);
  if (at.data > 0) peers.work_from = 0;
  if (at.data > 0) return peers;
  for (int replica = 1; replica < layout.data; ++replica) {
    peers.work_to.push_back(topology.rank_of({.data = replica, .pipeline = 0, .tensor = 0}));
  }
  return peers;
}

}  // namespace headrace
