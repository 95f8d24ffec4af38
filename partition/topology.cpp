#include "partition/topology.h"

#include <stdexcept>

namespace headrace {

std::string to_string(const ParallelLayout& layout) {
  return std::to_string(layout.pipeline) + "x" + std::to_string(layout.tensor) + "x" +
         std::to_string(layout.data);
}

Topology::Topology(ParallelLayout layout, int rank) : layout_(layout), rank_(rank) {
  if (layout.pipeline < 1 || layout.tensor < 1 || layout.data < 1) {
    throw std::invalid_argument("layout " + to_string(layout) + ": every size must be at least 1");
  }
  if (rank < 0 || rank >= layout.num_ranks()) {
    throw std::invalid_argument("rank " + std::to_string(rank) + " is outside layout " +
                                to_string(layout));
  }
}

Coordinates Topology::coordinates() const {
  return {.data = rank_ / (layout_.tensor * layout_.pipeline),
          .pipeline = rank_ / layout_.tensor % layout_.pipeline,
          .tensor = rank_ % layout_.tensor};
}

int Topology::rank_of(Coordinates c) const {
  return (c.data * layout_.pipeline + c.pipeline) * layout_.tensor + c.tensor;
}

std::optional<int> Topology::upstream() const {
  if (is_first_stage()) return std::nullopt;
  return rank_ - layout_.tensor;
}

std::optional<int> Topology::downstream() const {
  if (is_last_stage()) return std::nullopt;
  return rank_ + layout_.tensor;
}

ParallelLayout resolve_layout(ParallelLayout given, int num_ranks) {
  ParallelLayout layout = given;
  if (layout.tensor == 0) layout.tensor = 1;
  if (layout.data == 0) layout.data = 1;
  if (layout.pipeline == 0) layout.pipeline = num_ranks / (layout.tensor * layout.data);
  if (layout.num_ranks() != num_ranks) {
    throw std::invalid_argument("the layout " + to_string(layout) + " (P×T×D) needs " +
                                std::to_string(layout.num_ranks()) + " ranks, but " +
                                std::to_string(num_ranks) +
                                " were started: start as many, or change a size");
  }
  return layout;
}

}  // namespace headrace
