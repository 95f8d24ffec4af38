#include "partition/layer_split.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace headrace {
namespace {

// Most layers that each stage can take without its load passing `limit`, earlier stages first.
// Empty where the layers do not fit.
std::vector<int> fill_up_to(double limit, int num_layers, int num_stages, EndLoads ends) {
  std::vector<int> counts(static_cast<std::size_t>(num_stages), 0);
  int left = num_layers;
  for (int stage = 0; stage < num_stages; ++stage) {
    double room = limit;
    if (stage == 0) room -= ends.embedding;
    if (stage == num_stages - 1) room -= ends.head;
    if (room < 0) return {};
    constexpr double kRounding = 1e-9;
    const int stages_after = num_stages - 1 - stage;
    // Stages between this one and the last need a layer each.
    const int reserve = std::max(0, stages_after - 1);
    const int take = std::min(static_cast<int>(room + kRounding), left - reserve);
    if (take < 1 && stages_after > 0) return {};
    counts[static_cast<std::size_t>(stage)] = std::max(take, 0);
    left -= counts[static_cast<std::size_t>(stage)];
  }
  if (left > 0) return {};
  return counts;
}

}  // namespace

std::vector<IndexRange> split_by_counts(const std::vector<int>& counts, int num_layers) {
  std::vector<IndexRange> ranges;
  int begin = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    const int count = counts[stage];
    if (count < 0 || (count == 0 && stage + 1 < counts.size())) {
      throw std::invalid_argument("--layers: stage " + std::to_string(stage) + " has " +
                                  std::to_string(count) +
                                  " layers; every stage but the last needs at least 1");
    }
    ranges.push_back({begin, begin + count});
    begin += count;
  }
  if (begin != num_layers) {
    throw std::invalid_argument("--layers: the numbers add up to " + std::to_string(begin) +
                                ", but the model has " + std::to_string(num_layers) + " layers");
  }
  return ranges;
}

std::vector<IndexRange> split_layers(int num_layers, int num_stages, EndLoads ends) {
  if (num_stages < 1 || num_stages > num_layers + 1) {
    throw std::invalid_argument("a model of " + std::to_string(num_layers) +
                                " layers can run in 1 to " + std::to_string(num_layers + 1) +
                                " stages, not in " + std::to_string(num_stages));
  }
  // The largest load is that of some stage with some number of layers: try these, smallest first.
  std::vector<double> limits;
  for (int layers = 0; layers <= num_layers; ++layers) {
    limits.push_back(layers);
    limits.push_back(layers + ends.embedding);
    limits.push_back(layers + ends.head);
    limits.push_back(layers + ends.embedding + ends.head);
  }
  std::sort(limits.begin(), limits.end());
  for (const double limit : limits) {
    const std::vector<int> counts = fill_up_to(limit, num_layers, num_stages, ends);
    if (!counts.empty()) return split_by_counts(counts, num_layers);
  }
  throw std::logic_error("split_layers: no split of " + std::to_string(num_layers) +
                         " layers over " + std::to_string(num_stages) + " stages was found");
}

}  // namespace headrace
