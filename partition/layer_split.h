// Which layers each stage runs. Pure.
#pragma once

#include <vector>

#include "partition/index_range.h"

namespace headrace {

/// What the ends of the pipeline weigh, in units of one decoder layer's time.
struct EndLoads {
  double embedding = 0.0;  // on the first stage
  double head = 0.0;       // on the last stage
};

/// The split of num_layers over num_stages with the smallest largest load. Among equal ones,
/// earlier stages take more layers. Every stage has at least one layer, but the last may hold only
/// the head. Throws std::invalid_argument where num_stages is below 1 or above num_layers + 1.
std::vector<IndexRange> split_layers(int num_layers, int num_stages, EndLoads ends);

/// The split that a user wrote as a number of layers for each stage. Throws std::invalid_argument
/// where the counts do not add up to num_layers, or one but the last is zero.
std::vector<IndexRange> split_by_counts(const std::vector<int>& counts, int num_layers);

}  // namespace headrace
