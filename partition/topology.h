// Who stands where: the arithmetic between a rank and its place in a layout. Pure.
#pragma once

#include <optional>
#include <string>

namespace headrace {

/// Written P×T×D: stages of a pipeline, ranks that share a stage, pipelines side by side.
struct ParallelLayout {
  int pipeline = 1;
  int tensor = 1;
  int data = 1;

  int num_ranks() const { return pipeline * tensor * data; }
};

/// "2x1x1".
std::string to_string(const ParallelLayout& layout);

/// A rank's coordinates: its replica, its stage, its place in the tensor-parallel group.
struct Coordinates {
  int data = 0;
  int pipeline = 0;
  int tensor = 0;
};

/// The place of one rank; ranks count tensor fastest, then pipeline, then data.
class Topology {
 public:
  /// Throws std::invalid_argument for sizes below one or a rank outside the layout.
  Topology(ParallelLayout layout, int rank);

  const ParallelLayout& layout() const { return layout_; }
  int rank() const { return rank_; }
  Coordinates coordinates() const;
  int rank_of(Coordinates c) const;

  int stage() const { return coordinates().pipeline; }
  bool is_first_stage() const { return stage() == 0; }
  bool is_last_stage() const { return stage() == layout_.pipeline - 1; }
  /// The rank with the same shard in the stage before or after; none at the ends.
  std::optional<int> upstream() const;
  std::optional<int> downstream() const;

 private:
  ParallelLayout layout_;
  int rank_;
};

/// Sizes that the user left out are 0; the rest follows from the number of ranks, P first (T and D
/// are 1 then). Throws std::invalid_argument with all numbers where the product is not num_ranks.
ParallelLayout resolve_layout(ParallelLayout given, int num_ranks);

}  // namespace headrace
