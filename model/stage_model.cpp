#include "model/stage_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace headrace {
namespace {

// Elements a row of each workspace, from which both the allocation and the memory plan follow.
struct RowWidths {
  std::int64_t hidden, qkv, gate_up, heads, inner, rotary, vocab;
  std::int64_t wide() const { return std::max(qkv, gate_up); }
};

RowWidths row_widths(const ModelConfig& c) {
  const std::int64_t heads = std::int64_t{c.num_heads} * c.head_dim;
  return {.hidden = c.hidden_size,
          .qkv = heads + 2 * std::int64_t{c.num_kv_heads} * c.head_dim,
          .gate_up = 2 * std::int64_t{c.intermediate_size},
          .heads = heads,
          .inner = std::max<std::int64_t>(heads, c.intermediate_size),
          .rotary = c.rope.rotary_dim,
          .vocab = c.vocab_size};
}

std::size_t area(std::int64_t rows, std::int64_t cols, DType dtype) {
  return static_cast<std::size_t>(rows * cols) * dtype_bytes(dtype);
}

}  // namespace

AttentionShape attention_shape(const ModelConfig& config) {
  return {.num_heads = config.num_heads,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .rotary_dim = config.rope.rotary_dim,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))};
}

std::size_t stage_block_bytes(const ModelConfig& config, const StagePart& part, const Ops& ops,
                              int block_tokens) {
  return ops.kv_block_bytes(attention_shape(config), block_tokens) *
         static_cast<std::size_t>(part.num_layers());
}

std::size_t stage_workspace_bytes(const ModelConfig& config, const StagePart& part, DType dtype,
                                  const StageSize& size) {
  const RowWidths w = row_widths(config);
  std::size_t bytes = 0;
  if (part.num_layers() > 0) {
    bytes += area(size.max_rows, w.wide() + w.rotary, DType::kFloat32) +
             area(size.max_rows, w.hidden + w.heads + w.inner, dtype);
  }
  if (part.head) {
    bytes += area(size.max_logit_rows, w.hidden + w.vocab, DType::kFloat32) +
             area(size.max_logit_rows, w.hidden, dtype);
  }
  return bytes;
}

StageModel::StageModel(const ModelConfig& config, StagePart part, StageWeights weights, Ops& ops,
                       StageSize size)
    : config_(config),
      part_(part),
      weights_(std::move(weights)),
      ops_(ops),
      size_(size),
      attention_(attention_shape(config)),
      inverse_frequencies_(rope_inverse_frequencies(config.rope)) {
  const RowWidths w = row_widths(config);
  const DType dtype = ops.compute_dtype();
  const std::int64_t norm_rows =
      std::max(part.num_layers() > 0 ? size.max_rows : 0, part.head ? size.max_logit_rows : 0);
  normed_ = Buffer(area(norm_rows, w.hidden, dtype));
  if (part.num_layers() > 0) {
    block_bytes_ = ops.kv_block_bytes(attention_, size.block_tokens);
    kv_ = Buffer(block_bytes_ * static_cast<std::size_t>(size.num_blocks) *
                 static_cast<std::size_t>(part.num_layers()));
    wide_ = Buffer(area(size.max_rows, w.wide(), DType::kFloat32));
    queries_ = Buffer(area(size.max_rows, w.heads, dtype));
    inner_ = Buffer(area(size.max_rows, w.inner, dtype));
    rotations_ = Buffer(area(size.max_rows, w.rotary, DType::kFloat32));
    ops.reserve(size.max_rows, size.max_context, attention_);
  }
  if (part.head) {
    gathered_ = Buffer(area(size.max_logit_rows, w.hidden, DType::kFloat32));
    logits_ = Buffer(area(size.max_logit_rows, w.vocab, DType::kFloat32));
    statistics_.resize(static_cast<std::size_t>(size.max_logit_rows));
    ops.reserve(std::max(size.max_rows, size.max_logit_rows), size.max_context, attention_);
  }
}

TensorView StageModel::workspace(const Buffer& buffer, std::int64_t rows, std::int64_t cols,
                                 DType dtype) const {
  return {.data = buffer.data(), .rows = rows, .cols = cols, .dtype = dtype};
}

KvLayer StageModel::kv_layer(int index) const {
  const std::size_t layer_bytes = block_bytes_ * static_cast<std::size_t>(size_.num_blocks);
  return {.data = kv_.data() + layer_bytes * static_cast<std::size_t>(index),
          .block_bytes = block_bytes_,
          .block_tokens = size_.block_tokens};
}

// Cosines and sines of every row's position: angles in float32 as transformers takes them,
// functions in double, so that the rounded result does not hang on a library's last bit.
void StageModel::fill_rotations(std::span<const SequenceRows> sequences) {
  const auto rotary = static_cast<std::size_t>(config_.rope.rotary_dim);
  const std::size_t half = rotary / 2;
  const double factor = config_.rope.attention_factor;
  auto* table = reinterpret_cast<float*>(rotations_.data());
  for (const SequenceRows& sequence : sequences) {
    for (int i = 0; i < sequence.num_rows; ++i) {
      float* row = table + static_cast<std::size_t>(sequence.first_row + i) * rotary;
      const auto position = static_cast<float>(sequence.first_position + i);
      for (std::size_t d = 0; d < half; ++d) {
        const auto angle = static_cast<double>(position * inverse_frequencies_[d]);
        row[d] = static_cast<float>(std::cos(angle) * factor);
        row[half + d] = static_cast<float>(std::sin(angle) * factor);
      }
    }
  }
}

void StageModel::run_layer(int index, TensorView hidden, std::span<const SequenceRows> sequences) {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(index)];
  const RowWidths widths = row_widths(config_);
  const DType dtype = ops_.compute_dtype();
  const std::int64_t rows = hidden.rows;
  const KvLayer kv = kv_layer(index);

  const TensorView normed = workspace(normed_, rows, widths.hidden, dtype);
  const TensorView qkv = workspace(wide_, rows, widths.qkv, DType::kFloat32);
  const TensorView queries = workspace(queries_, rows, widths.heads, dtype);
  const TensorView attended = workspace(inner_, rows, widths.heads, dtype);
  ops_.rms_norm(normed, hidden, w.attention_norm.data(), config_.rms_norm_eps);
  ops_.matmul(qkv, normed, *w.qkv.weight, w.qkv.bias_or_null());
  ops_.rope_and_store_kv(queries, qkv, reinterpret_cast<const float*>(rotations_.data()),
                         attention_, kv, sequences);
  ops_.attention(attended, queries, attention_, kv, sequences);
  ops_.matmul_add(hidden, attended, *w.output.weight, w.output.bias_or_null());

  const TensorView gate_up = workspace(wide_, rows, widths.gate_up, DType::kFloat32);
  const TensorView activated = workspace(inner_, rows, config_.intermediate_size, dtype);
  ops_.rms_norm(normed, hidden, w.mlp_norm.data(), config_.rms_norm_eps);
  ops_.matmul(gate_up, normed, *w.gate_up.weight, w.gate_up.bias_or_null());
  ops_.silu_mul(activated, gate_up);
  ops_.matmul_add(hidden, activated, *w.down.weight, w.down.bias_or_null());
}

void StageModel::forward(TensorView hidden, std::span<const TokenId> tokens,
                         std::span<const SequenceRows> sequences) {
  if (part_.embedding) ops_.embed(hidden, *weights_.embedding, tokens);
  if (part_.num_layers() == 0) return;
  fill_rotations(sequences);
  for (int i = 0; i < part_.num_layers(); ++i) run_layer(i, hidden, sequences);
}

StageModel::Logits StageModel::logits(ConstTensorView hidden, std::span<const std::int32_t> rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const TensorView gathered = workspace(gathered_, count, hidden.cols, DType::kFloat32);
  const std::size_t row_bytes = static_cast<std::size_t>(hidden.cols) * sizeof(float);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(gathered.data + i * row_bytes,
                hidden.data + static_cast<std::size_t>(rows[i]) * row_bytes, row_bytes);
  }
  const TensorView normed = workspace(normed_, count, hidden.cols, ops_.compute_dtype());
  const TensorView values = workspace(logits_, count, config_.vocab_size, DType::kFloat32);
  ops_.rms_norm(normed, gathered, weights_.final_norm.data(), config_.rms_norm_eps);
  ops_.matmul(values, normed, *weights_.head(part_), nullptr);
  const std::span<RowStatistics> statistics(statistics_.data(), rows.size());
  ops_.row_statistics(statistics, values);
  return {.values = values, .statistics = statistics};
}

}  // namespace headrace
