// The fixed order in which the inner sum of a matrix product is taken. The K dimension is cut into
// slices; a slice is one ascending chain of fused multiply-adds from zero; slices are added in one
// binary tree. The tree is a property of the whole matrix, so a sum has the same bits whoever owns
// which slices. Built by partition/reduction_slices.h, obeyed by every backend.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace headrace {

/// The tree as data, in post-order: sum slice s and push it, then merges[s] times pop two values
/// and push (earlier + later). After the last slice one value is left, or several where the slices
/// are one rank's part of a tree: the roots of its whole subtrees, to be added to other ranks'.
struct ReductionTree {
  std::vector<std::int32_t>
      bounds;  // num_slices + 1 ascending positions, bounds[0] = 0, back() = K
  std::vector<std::int32_t> merges;  // one entry a slice

  int num_slices() const { return static_cast<int>(merges.size()); }
  std::int32_t k() const { return bounds.empty() ? 0 : bounds.back(); }
  int num_values() const {
    return num_slices() - std::accumulate(merges.begin(), merges.end(), std::int32_t{0});
  }

  /// One chain over the whole of K.
  static ReductionTree single(std::int32_t k) { return {{0, k}, {0}}; }
};

}  // namespace headrace
