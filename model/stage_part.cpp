#include "model/stage_part.h"

#include <stdexcept>

namespace headrace {

ShardedSizes sharded_sizes(const ModelConfig& config) {
  return {.num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .intermediate_size = config.intermediate_size,
          .vocab_size = config.vocab_size};
}

void require_tensor_parallel(const ModelConfig& config, int size) {
  tensor_shards(sharded_sizes(config), size);
  if (size > 1 && config.qk_norm == QkNorm::kProjection) {
    throw std::invalid_argument(config.architecture +
                                " has norms over all queries and all keys of a token, which needs "
                                "them on one rank: only a tensor-parallel size of 1 is supported");
  }
}

StageShard stage_shard(const ModelConfig& config, const StagePart& part) {
  const ShardedSizes sizes = sharded_sizes(config);
  const std::vector<TensorShard> shards = tensor_shards(sizes, part.tensor_size);
  StageShard shard{.own = shards.at(static_cast<std::size_t>(part.tensor_rank)),
                   .vocab = {},
                   .attention_sum = attention_output_sum(sizes, shards),
                   .mlp_sum = mlp_down_sum(sizes, shards)};
  for (const TensorShard& other : shards) shard.vocab.push_back(other.vocab);
  return shard;
}

}  // namespace headrace
