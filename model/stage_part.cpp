#include "model/stage_part.h"

namespace headrace {

ShardedSizes sharded_sizes(const ModelConfig& config) {
  return {.num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .intermediate_size = config.intermediate_size,
          .vocab_size = config.vocab_size};
}

StageShard stage_shard(const ModelConfig& config, const StagePart& part) {
  const ShardedSizes sizes = sharded_sizes(config);
  const std::vector<TensorShard> shards = tensor_shards(sizes, part.tensor_size);
  return {.own = shards.at(static_cast<std::size_t>(part.tensor_rank)),
          .ranks = shards,
          .attention_sum = attention_output_sum(sizes, shards),
          .mlp_sum = mlp_down_sum(sizes, shards)};
}

}  // namespace headrace
