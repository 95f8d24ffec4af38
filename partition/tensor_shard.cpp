#include "partition/tensor_shard.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace headrace {
namespace {

// Where share i of n things begins when `shares` ranks divide them: earlier ones take the rest, as
// the halves of a reduction tree do.
int share_begin(int i, int n, int shares) {
  return static_cast<int>((static_cast<std::int64_t>(i) * n + shares - 1) / shares);
}

IndexRange share(int i, int n, int shares) {
  return {share_begin(i, n, shares), share_begin(i + 1, n, shares)};
}

// Ranks divide the KV heads.
void cut_kv_heads(const ShardedSizes& sizes, TensorShard& shard) {
  const int group = sizes.num_heads / sizes.num_kv_heads;
  shard.kv_heads = share(shard.rank, sizes.num_kv_heads, shard.size);
  shard.heads = {shard.kv_heads.begin * group, shard.kv_heads.end * group};
}

// KV heads divide the ranks; those of one KV head divide its query heads.
void share_kv_heads(const ShardedSizes& sizes, TensorShard& shard) {
  const int group = sizes.num_heads / sizes.num_kv_heads;
  for (int kv_head = 0; kv_head < sizes.num_kv_heads; ++kv_head) {
    const IndexRange ranks = share(kv_head, shard.size, sizes.num_kv_heads);
    if (shard.rank < ranks.begin || shard.rank >= ranks.end) continue;
    const IndexRange inside = share(shard.rank - ranks.begin, group, ranks.size());
    shard.kv_heads = {kv_head, kv_head + 1};
    shard.heads = {kv_head * group + inside.begin, kv_head * group + inside.end};
  }
}

// The slices [first, last) as a tree of their own: only merges between them.
class PartBuilder {
 public:
  PartBuilder(const ReductionSlices& whole, const std::vector<int>& cuts, ShardedSum& sum)
      : whole_(whole), cuts_(cuts), sum_(sum) {}

  void run() {
    for (std::size_t rank = 0; rank + 1 < cuts_.size(); ++rank) add_part(rank);
  }

 private:
  // Walks the whole tree's post-order. The stack holds the first slice of each subtree that waits
  // to be merged: a merge belongs to a part when both its sides lie inside.
  void add_part(std::size_t rank) {
    const int first = cuts_[rank];
    ReductionSlices part;
    part.bounds.push_back(0);
    int num_values = 0;
    for (int slice = first; slice < cuts_[rank + 1]; ++slice) {
      const auto i = static_cast<std::size_t>(slice);
      part.bounds.push_back(whole_.bounds[i + 1] - whole_.bounds[static_cast<std::size_t>(first)]);
      part.merges.push_back(0);
      stack_.push_back(slice);
      ++num_values;
      sum_.merges.push_back(0);
      for (int merge = 0; merge < whole_.merges[i]; ++merge) {
        stack_.pop_back();
        if (stack_.back() >= first) {
          part.merges.back() += 1;
          --num_values;
          sum_.merges.pop_back();  // the two values are one
        } else {
          sum_.merges.back() += 1;
        }
      }
    }
    sum_.parts.push_back(std::move(part));
    sum_.num_values.push_back(num_values);
  }

  const ReductionSlices& whole_;
  const std::vector<int>& cuts_;
  ShardedSum& sum_;
  std::vector<int> stack_;
};

int num_slices(const ReductionSlices& slices) {
  return static_cast<int>(slices.merges.size());
}

}  // namespace

int max_tensor_parallel_size(const ShardedSizes& sizes) {
  return std::min(sizes.num_heads, num_slices(mlp_down_slices(sizes.intermediate_size)));
}

std::vector<TensorShard> tensor_shards(const ShardedSizes& sizes, int size) {
  const int most = max_tensor_parallel_size(sizes);
  if (size < 1 || size > most) {
    throw std::invalid_argument(
        "tensor-parallel size " + std::to_string(size) + ": this model can be split over 1 to " +
        std::to_string(most) + " ranks (" + std::to_string(sizes.num_heads) +
        " query heads, intermediate size " + std::to_string(sizes.intermediate_size) + ")");
  }
  const ReductionSlices mlp = mlp_down_slices(sizes.intermediate_size);
  const int vocab_slices = (sizes.vocab_size + kVocabSlice - 1) / kVocabSlice;
  std::vector<TensorShard> shards;
  for (int rank = 0; rank < size; ++rank) {
    TensorShard shard;
    shard.rank = rank;
    shard.size = size;
    if (size <= sizes.num_kv_heads) {
      cut_kv_heads(sizes, shard);
    } else {
      share_kv_heads(sizes, shard);
    }
    const IndexRange inner = share(rank, num_slices(mlp), size);
    shard.intermediate = {mlp.bounds[static_cast<std::size_t>(inner.begin)],
                          mlp.bounds[static_cast<std::size_t>(inner.end)]};
    const IndexRange ids = share(rank, vocab_slices, size);
    shard.vocab = {std::min(ids.begin * kVocabSlice, sizes.vocab_size),
                   std::min(ids.end * kVocabSlice, sizes.vocab_size)};
    shards.push_back(shard);
  }
  return shards;
}

ShardedSum cut_sum(const ReductionSlices& whole, const std::vector<int>& cuts) {
  ShardedSum sum;
  PartBuilder(whole, cuts, sum).run();
  return sum;
}

ShardedSum attention_output_sum(const ShardedSizes& sizes, const std::vector<TensorShard>& shards) {
  std::vector<int> cuts{0};
  for (const TensorShard& shard : shards) cuts.push_back(shard.heads.end);
  return cut_sum(attention_output_slices(sizes.num_heads, sizes.num_kv_heads, sizes.head_dim),
                 cuts);
}

ShardedSum mlp_down_sum(const ShardedSizes& sizes, const std::vector<TensorShard>& shards) {
  const ReductionSlices whole = mlp_down_slices(sizes.intermediate_size);
  std::vector<int> cuts{0};
  for (const TensorShard& shard : shards) {
    const auto bound =
        std::lower_bound(whole.bounds.begin(), whole.bounds.end(), shard.intermediate.end);
    cuts.push_back(static_cast<int>(bound - whole.bounds.begin()));
  }
  return cut_sum(whole, cuts);
}

}  // namespace headrace
