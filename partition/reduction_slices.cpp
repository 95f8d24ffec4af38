#include "partition/reduction_slices.h"

#include <algorithm>

namespace headrace {
namespace {

// Adds one merge to the last leaf of every inner node of the bisect tree over leaves [begin, end).
void count_merges(int begin, int end, std::vector<std::int32_t>& merges) {
  if (end - begin < 2) return;
  const int middle = begin + (end - begin + 1) / 2;
  count_merges(begin, middle, merges);
  count_merges(middle, end, merges);
  merges[static_cast<std::size_t>(end - 1)] += 1;
}

}  // namespace

std::vector<std::int32_t> bisect_merges(int num_slices) {
  std::vector<std::int32_t> merges(static_cast<std::size_t>(num_slices), 0);
  count_merges(0, num_slices, merges);
  return merges;
}

ReductionSlices attention_output_slices(int num_heads, int num_kv_heads, int head_dim) {
  ReductionSlices slices;
  for (int head = 0; head <= num_heads; ++head) slices.bounds.push_back(head * head_dim);
  const int group = num_heads / num_kv_heads;
  const std::vector<std::int32_t> inside = bisect_merges(group);
  const std::vector<std::int32_t> over = bisect_merges(num_kv_heads);
  for (int kv_head = 0; kv_head < num_kv_heads; ++kv_head) {
    slices.merges.insert(slices.merges.end(), inside.begin(), inside.end());
    slices.merges.back() += over[static_cast<std::size_t>(kv_head)];
  }
  return slices;
}

ReductionSlices mlp_down_slices(int intermediate_size) {
  const std::int64_t granule = intermediate_size < 256 ? 4 : 32;
  int num_slices = 8;
  while (num_slices < 32 && num_slices * 2 <= intermediate_size / 192) num_slices *= 2;
  const std::int64_t units = (intermediate_size + granule - 1) / granule;
  if (units < num_slices) num_slices = 1;
  ReductionSlices slices;
  for (int i = 0; i < num_slices; ++i) {
    slices.bounds.push_back(static_cast<std::int32_t>(granule * (i * units / num_slices)));
  }
  slices.bounds.push_back(intermediate_size);
  slices.merges = bisect_merges(num_slices);
  return slices;
}

}  // namespace headrace
