// Which piece of a model one rank runs: a range of layers, the ends of the model, and the share of
// each matrix that tensor parallelism leaves it.
#pragma once

#include "model/config.h"
#include "partition/tensor_shard.h"

namespace headrace {

/// Decoder layers [begin, end), the ends of the model, and the place among the ranks that share the
/// stage.
struct StagePart {
  int begin_layer = 0;
  int end_layer = 0;
  bool embedding = false;  // turns token ids into hidden states
  bool head = false;       // final norm and logits
  int tensor_rank = 0;
  int tensor_size = 1;

  int num_layers() const { return end_layer - begin_layer; }
};

/// The sizes of a model that tensor parallelism cuts.
ShardedSizes sharded_sizes(const ModelConfig& config);

/// What the part's rank holds of every matrix, and how its sums meet those of its group.
struct StageShard {
  TensorShard own;
  std::vector<TensorShard> ranks;  // of the group
  ShardedSum attention_sum;
  ShardedSum mlp_sum;
};
StageShard stage_shard(const ModelConfig& config, const StagePart& part);

}  // namespace headrace
