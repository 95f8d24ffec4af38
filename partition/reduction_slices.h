// Where the inner sum of a row-parallel product is cut, as a property of the whole matrix. Any cut
// of the matrix over tensor-parallel ranks falls between slices, so sums keep their order and their
// bits.
#pragma once

#include <cstdint>
#include <vector>

namespace headrace {

/// A fixed binary tree over slices of K in post-order (kernels/reduction_tree.h has the same form).
struct ReductionSlices {
  std::vector<std::int32_t> bounds;
  std::vector<std::int32_t> merges;
};

/// The "bisect" tree over num_slices leaves: n slices are the first ceil(n / 2) plus the rest.
/// Returns, for each slice, how many merges follow it in post-order.
std::vector<std::int32_t> bisect_merges(int num_slices);

/// Attention output: one slice a query head, a bisect tree inside each KV group, then one over the
/// groups.
ReductionSlices attention_output_slices(int num_heads, int num_kv_heads, int head_dim);

/// MLP down: S = largest power of two not above intermediate / 192, clamped to 8..32; boundary i =
/// g * floor(i * U / S) with U = ceil(intermediate / g), g = 32 (4 below 256). Where U is below S,
/// so that slices would be empty, there is one slice.
ReductionSlices mlp_down_slices(int intermediate_size);

}  // namespace headrace
