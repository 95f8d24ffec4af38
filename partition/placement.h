// Which process takes which place in a layout, given the nodes they run on: ranks that share a
// stage belong on one node, because they exchange sums twice a layer. Pure.
#pragma once

#include <vector>

namespace headrace {

/// The process (its MPI rank) at each rank of the plan. node_of: for each process, any number that
/// names its node. Whole groups of tensor_size are taken from one node each, nodes in order of
/// their first process; what is left over forms the last groups. Process 0 keeps rank 0: standard
/// input is its own.
std::vector<int> place_ranks(const std::vector<int>& node_of, int tensor_size);

/// Tensor-parallel groups, by their first rank, whose ranks are on several nodes. node_of: by rank
/// of the plan.
std::vector<int> groups_across_nodes(const std::vector<int>& node_of, int tensor_size);

}  // namespace headrace
