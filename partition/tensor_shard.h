// What each rank of a tensor-parallel group holds of every layer. Pure arithmetic; the cuts fall
// between the slices in which row-parallel products are summed (reduction_slices.h), so a shard
// never changes the order of a sum.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/index_range.h"
#include "partition/reduction_slices.h"

namespace headrace {

/// The sizes of a model that tensor parallelism cuts.
struct ShardedSizes {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int intermediate_size = 0;
  int vocab_size = 0;
};

/// One rank's share. Query heads, intermediate columns and vocabulary rows have one owner each; a
/// KV head is held by every rank that has query heads of its group.
struct TensorShard {
  int rank = 0;
  int size = 1;
  IndexRange heads;         // query heads; a multiple of kv_heads.size()
  IndexRange kv_heads;      // those that `heads` look at
  IndexRange intermediate;  // columns of gate and up, inner columns of down
  IndexRange vocab;         // multiples of 1,024 ids but for the end; empty where ids run out
};

/// Ids of the vocabulary that are summed, and kept, together.
inline constexpr int kVocabSlice = 1024;

/// The largest tensor-parallel size that leaves every rank a query head and a slice of the MLP.
int max_tensor_parallel_size(const ShardedSizes& sizes);

/// The shares of a group of `size` ranks, in order of rank. KV heads are cut where there are at
/// least as many as ranks, unevenly where they do not divide; otherwise ranks share KV heads and
/// each has query heads of one group only. Throws std::invalid_argument, naming the sizes that can
/// be had, for one that cannot.
std::vector<TensorShard> tensor_shards(const ShardedSizes& sizes, int size);

/// The inner sums of a row-parallel product, cut over the ranks of a group.
struct ShardedSum {
  std::vector<ReductionSlices> parts;  // by rank: bounds from 0; may leave several values
  /// Values that each part leaves, in order: roots of its largest whole subtrees.
  std::vector<int> num_values;
  /// How the values of all ranks, in order of rank, become one: after value i, merges[i] times the
  /// last two are added (earlier + later).
  std::vector<std::int32_t> merges;
};

/// Cuts a tree before the given slices: cuts ascend from 0 to the number of slices, one range a
/// rank, none empty.
ShardedSum cut_sum(const ReductionSlices& whole, const std::vector<int>& cuts);

/// The attention output's and the MLP's inner sums, cut as tensor_shards() cuts.
ShardedSum attention_output_sum(const ShardedSizes& sizes, const std::vector<TensorShard>& shards);
ShardedSum mlp_down_sum(const ShardedSizes& sizes, const std::vector<TensorShard>& shards);

}  // namespace headrace
