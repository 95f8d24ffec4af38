#include "model/stage_memory.h"

#include <cmath>
#include <vector>

#include "model/rotations.h"

namespace headrace {
namespace {

bool needs_outcome(const ModelConfig& config, const StagePart& part) {
  return (part.num_layers() > 0 && changes_outcomes(config)) ||
         (part.embedding && config.learned_positions);
}

}  // namespace

RowWidths row_widths(const ModelConfig& c, const TensorShard& own) {
  const std::int64_t heads = std::int64_t{own.heads.size()} * c.head_dim;
  return {.hidden = c.hidden_size,
          .qkv = heads + 2 * std::int64_t{own.kv_heads.size()} * c.head_dim,
          .gate_up = (c.gated_mlp ? 2 : 1) * std::int64_t{own.intermediate.size()},
          .heads = heads,
          .inner = std::max<std::int64_t>(heads, own.intermediate.size()),
          .vocab = c.vocab_size};
}

std::size_t tensor_bytes(std::int64_t rows, std::int64_t cols, DType dtype) {
  return static_cast<std::size_t>(rows * cols) * dtype_bytes(dtype);
}

bool changes_outcomes(const ModelConfig& config) {
  return config.post_norms || config.residual_scale != 1.0F;
}

bool shares_norms(const ModelConfig& config, const StagePart& part) {
  return part.num_layers() > 0 && part.tensor_size > 1 && config.qk_norm == QkNorm::kProjection;
}

std::int64_t projection_cols(const ModelConfig& config) {
  return std::int64_t{config.num_heads + config.num_kv_heads} * config.head_dim;
}

int most_own_rows(const StageSize& size, const StagePart& part) {
  return (size.max_logit_rows + part.tensor_size - 1) / part.tensor_size;
}

int most_rows(const StagePart& part, const StageSize& size) {
  return part.head ? std::max(size.max_rows, size.max_logit_rows) : size.max_rows;
}

AttentionShape attention_shape(const ModelConfig& config, const StagePart& part, KvType kv_type) {
  const TensorShard own = stage_shard(config, part).own;
  return {.num_heads = own.heads.size(),
          .num_kv_heads = own.kv_heads.size(),
          .head_dim = config.head_dim,
          .rotary_dim = config.rope.rotary_dim,
          .scale = config.attention_scale > 0.0F
                       ? config.attention_scale
                       : static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))),
          .window = 0,
          .soft_cap = config.attention_soft_cap,
          .kv_type = kv_type};
}

KvPlaces stage_kv_places(const ModelConfig& config, const StagePart& part, const Ops& ops,
                         const StageSize& size) {
  const std::size_t page =
      ops.kv_block_bytes(attention_shape(config, part, size.kv_type), size.block_tokens);
  return kv_places(config, part, size.kv, {.page_bytes = page, .num_blocks = size.num_blocks});
}

std::size_t stage_block_bytes(const ModelConfig& config, const StagePart& part, const Ops& ops,
                              const StageSize& size) {
  return stage_kv_places(config, part, ops, size).block_bytes;
}

std::size_t stage_reserve_bytes(const ModelConfig& config, const StagePart& part, const Ops& ops,
                                const StageSize& size) {
  return ops.reserve_bytes(most_rows(part, size), size.max_context,
                           attention_shape(config, part, size.kv_type));
}

std::size_t stage_exchange_bytes(const ModelConfig& config, const StagePart& part,
                                 const StageSize& size) {
  const StageShard shard = stage_shard(config, part);
  const auto most = [](const std::vector<int>& counts) {
    return *std::max_element(counts.begin(), counts.end());
  };
  const int values = std::max(most(shard.attention_sum.num_values), most(shard.mlp_sum.num_values));
  std::size_t sums =
      tensor_bytes(std::int64_t{values} * size.max_rows, config.hidden_size, DType::kFloat32);
  if (shares_norms(config, part)) {
    sums = std::max(sums, tensor_bytes(size.max_rows, projection_cols(config), DType::kFloat32));
  }
  if (!part.head) return sums;
  int ids = 0;
  for (const TensorShard& rank : shard.ranks) ids = std::max(ids, rank.vocab.size());
  return std::max(sums, tensor_bytes(size.max_logit_rows, ids, DType::kFloat32));
}

std::size_t stage_workspace_bytes(const ModelConfig& config, const StagePart& part, DType dtype,
                                  const StageSize& size) {
  return WorkspaceBytes(config, part, dtype, size).total();
}

WorkspaceBytes::WorkspaceBytes(const ModelConfig& config, const StagePart& part, DType dtype,
                               const StageSize& size) {
  const RowWidths w = row_widths(config, stage_shard(config, part).own);
  const int layer_rows = part.num_layers() > 0 ? size.max_rows : 0;
  const int head_rows = part.head ? size.max_logit_rows : 0;
  normed = tensor_bytes(std::max(layer_rows, head_rows), w.hidden, dtype);
  wide = tensor_bytes(layer_rows, w.wide(), DType::kFloat32);
  queries = tensor_bytes(layer_rows, w.heads, dtype);
  inner = tensor_bytes(layer_rows, w.inner, dtype);
  rotations = Rotations::bytes(config.rope, layer_rows);
  if (config.window_rope) window_rotations = Rotations::bytes(*config.window_rope, layer_rows);
  if (needs_outcome(config, part)) outcome = tensor_bytes(size.max_rows, w.hidden, DType::kFloat32);
  if (shares_norms(config, part)) {
    projections = tensor_bytes(size.max_rows, projection_cols(config), DType::kFloat32);
  }
  if (!part.head) return;
  gathered = tensor_bytes(head_rows, w.hidden, DType::kFloat32);
  logits = tensor_bytes(most_own_rows(size, part), w.vocab, DType::kFloat32);
}

std::size_t WorkspaceBytes::total() const {
  std::size_t sum = 0;
  for (const std::size_t bytes : {normed, wide, queries, inner, outcome, projections, gathered,
                                  logits, rotations, window_rotations}) {
    sum += arena_bytes(bytes);
  }
  return sum;
}

}  // namespace headrace
