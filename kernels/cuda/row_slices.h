// A row of logits as a block takes it: its maximum, and sums over slices of 1,024 ids in the order
// that the reference backend and the sampler have. Half a warp takes a slice, its 16 lanes the
// slice's 16 chains.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/simt.h"
#include "kernels/host_device.h"

namespace headrace {

inline constexpr int kRowThreads = 256;
inline constexpr int kRowChains = 16;
inline constexpr std::int64_t kRowSlice = 1024;
inline constexpr std::int64_t kMostIds = std::int64_t{4} << 20;  // their slices' sums fit 16 KB

HR_HOST_DEVICE inline int num_row_slices(std::int64_t vocab) {
  return static_cast<int>((vocab + kRowSlice - 1) / kRowSlice);
}

/// visit(id, logit) for the ids of this thread, ascending. Eight loads are on their way at a time,
/// since a block has the row to itself and waits for nothing else.
template <class Visit>
HR_DEVICE void for_own_ids(const float* row, std::int64_t vocab, const Visit& visit) {
  constexpr int kLoads = 8;
  std::int64_t i = thread_index();
  for (; i + (kLoads - 1) * kRowThreads < vocab; i += kLoads * kRowThreads) {
    float logits[kLoads];
    for (int l = 0; l < kLoads; ++l) logits[l] = row[i + l * kRowThreads];
    for (int l = 0; l < kLoads; ++l) visit(i + l * kRowThreads, logits[l]);
  }
  for (; i < vocab; i += kRowThreads) visit(i, row[i]);
}

HR_DEVICE float row_max(const float* row, std::int64_t vocab, float* scratch) {
  float max = row[0];
  for_own_ids(row, vocab,
              [&](std::int64_t /*id*/, float logit) { max = logit > max ? logit : max; });
  return block_max(max, scratch) + 0.0F;  // never a negative zero
}

// One slice's sum, in every lane of the half warp: chains ascending, then pairs 8, 4, 2, 1 apart.
template <class Weight>
HR_DEVICE float slice_sum(const float* slice, std::int64_t count, const Weight& weight) {
  const int chain = thread_index() % kRowChains;
  float sum = 0.0F;
  for (std::int64_t i = chain; i < count; i += kRowChains) sum += weight(slice[i]);
  for (int lanes = kRowChains / 2; lanes >= 1; lanes /= 2) sum += shuffle_xor(sum, lanes);
  return sum;
}

/// The sum of weight(logit) over a row: in the block's first thread; others get 0. sums has a float
/// a slice. All threads arrive.
template <class Weight>
HR_DEVICE float sum_in_slices(const float* row, std::int64_t vocab, float* sums,
                              const Weight& weight) {
  // Both halves of a warp go round as often, since they shuffle together.
  constexpr int kHalves = kRowThreads / kRowChains;
  const int num_slices = num_row_slices(vocab);
  for (int first = 0; first < num_slices; first += kHalves) {
    const int slice = first + thread_index() / kRowChains;
    const std::int64_t begin = slice * kRowSlice;
    const std::int64_t left = vocab - begin;
    const float sum = slice_sum(row + begin, left < kRowSlice ? left : kRowSlice, weight);
    if (thread_index() % kRowChains == 0 && slice < num_slices) sums[slice] = sum;
  }
  sync_block();
  float sum = 0.0F;
  if (thread_index() == 0) {
    for (int slice = 0; slice < num_slices; ++slice) sum += sums[slice];
  }
  return sum;
}

/// Throws std::invalid_argument for rows that the operator of that name does not take.
inline void require_vocabulary(const char* name, std::int64_t vocab) {
  if (vocab >= 1 && vocab <= kMostIds) return;
  throw std::invalid_argument(std::string(name) + ": rows of " + std::to_string(vocab) +
                              " ids, on the GPU 1 to " + std::to_string(kMostIds));
}

/// Floats of `sums` for such a row, a multiple of 16 bytes.
inline int slice_floats(std::int64_t vocab) {
  return (num_row_slices(vocab) + 3) / 4 * 4;
}

}  // namespace headrace
