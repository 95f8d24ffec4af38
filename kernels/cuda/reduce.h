// Sums and maxima over a warp or a block, in an order that depends on nothing but the sizes.
#pragma once

#include "kernels/cuda/simt.h"

namespace headrace {

/// Pairs at distance 16, 8, 4, 2, 1. Every lane gets the sum.
HR_DEVICE float warp_sum(float value) {
  for (int lanes = kWarpThreads / 2; lanes >= 1; lanes /= 2) value += shuffle_xor(value, lanes);
  return value;
}

HR_DEVICE float warp_max(float value) {
  for (int lanes = kWarpThreads / 2; lanes >= 1; lanes /= 2) {
    const float other = shuffle_xor(value, lanes);
    value = other > value ? other : value;
  }
  return value;
}

/// Sums of the warps, added in ascending order. scratch holds one float a warp; it may be used
/// again at once.
HR_DEVICE float block_sum(float value, float* scratch) {
  const float own = warp_sum(value);
  if (lane_index() == 0) scratch[warp_index()] = own;
  sync_block();
  float sum = 0.0F;
  for (int warp = 0; warp < block_threads() / kWarpThreads; ++warp) sum += scratch[warp];
  sync_block();
  return sum;
}

HR_DEVICE float block_max(float value, float* scratch) {
  const float own = warp_max(value);
  if (lane_index() == 0) scratch[warp_index()] = own;
  sync_block();
  float max = scratch[0];
  for (int warp = 1; warp < block_threads() / kWarpThreads; ++warp) {
    max = scratch[warp] > max ? scratch[warp] : max;
  }
  sync_block();
  return max;
}

/// Sum of the values of the block's threads before this one, which is exact where they are integers
/// below 2^24. scratch as in block_sum().
HR_DEVICE float block_sum_before(float value, float* scratch) {
  float up_to_own = value;
  for (int lanes = 1; lanes < kWarpThreads; lanes *= 2) {
    const bool has_other = lane_index() >= lanes;
    const float other = shuffle(up_to_own, has_other ? lane_index() - lanes : lane_index());
    if (has_other) up_to_own += other;
  }
  if (lane_index() == kWarpThreads - 1) scratch[warp_index()] = up_to_own;
  sync_block();
  float before = up_to_own - value;
  for (int warp = 0; warp < warp_index(); ++warp) before += scratch[warp];
  sync_block();
  return before;
}

}  // namespace headrace
