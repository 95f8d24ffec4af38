#include "partition/placement.h"

#include <algorithm>
#include <cstddef>

namespace headrace {
namespace {

// The processes of each node, nodes in order of their first process.
std::vector<std::vector<int>> processes_by_node(const std::vector<int>& node_of) {
  std::vector<std::vector<int>> nodes;
  std::vector<int> names;
  for (std::size_t process = 0; process < node_of.size(); ++process) {
    const auto found = std::find(names.begin(), names.end(), node_of[process]);
    const auto at = static_cast<std::size_t>(found - names.begin());
    if (found == names.end()) {
      names.push_back(node_of[process]);
      nodes.emplace_back();
    }
    nodes[at].push_back(static_cast<int>(process));
  }
  return nodes;
}

void append(const std::vector<int>& part, std::vector<int>& all) {
  all.insert(all.end(), part.begin(), part.end());
}

}  // namespace

std::vector<int> place_ranks(const std::vector<int>& node_of, int tensor_size) {
  const auto size = static_cast<std::size_t>(tensor_size);
  const std::vector<std::vector<int>> nodes = processes_by_node(node_of);
  std::vector<int> order;
  std::vector<int> left_over;
  for (const std::vector<int>& node : nodes) {
    const auto whole = static_cast<std::ptrdiff_t>(node.size() / size * size);
    append({node.begin(), node.begin() + whole}, order);
    append({node.begin() + whole, node.end()}, left_over);
  }
  append(left_over, order);
  // The first node has too few processes for a group: its order stays, so that process 0 is first.
  if (order.front() != 0) {
    order.clear();
    for (const std::vector<int>& node : nodes) append(node, order);
  }
  return order;
}

std::vector<int> groups_across_nodes(const std::vector<int>& node_of, int tensor_size) {
  std::vector<int> groups;
  for (auto first = node_of.begin(); first != node_of.end(); first += tensor_size) {
    const bool one_node =
        std::all_of(first, first + tensor_size, [&](int node) { return node == *first; });
    if (!one_node) groups.push_back(static_cast<int>(first - node_of.begin()));
  }
  return groups;
}

}  // namespace headrace
