// The forward pass of one stage: from token ids or hidden states to hidden states, and on the last
// stage to logits. Owns the weights, the KV cache of its layers and the workspace; all memory is
// taken once. The same code runs every supported family; what differs is in ModelConfig.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/ops.h"
#include "model/config.h"
#include "model/stage_weights.h"
#include "model/token.h"

namespace headrace {

/// How much the stage must be ready for.
struct StageSize {
  int max_rows = 0;        // rows of a step
  int max_logit_rows = 0;  // of them with logits at once; more are done in turns by the caller
  int max_context = 0;     // positions of a sequence
  int num_blocks = 0;      // of the KV cache
  int block_tokens = 16;
};

class StageModel {
 public:
  /// Allocates the KV cache and the workspace. ops must outlive it.
  StageModel(const ModelConfig& config, StagePart part, StageWeights weights, Ops& ops,
             StageSize size);

  /// One step through this stage's layers, in place. hidden: float32 [rows, hidden]; on the first
  /// stage it is written from `tokens` (one id a row), elsewhere it holds what the stage before
  /// sent.
  void forward(TensorView hidden, std::span<const TokenId> tokens,
               std::span<const SequenceRows> sequences);

  /// Final norm and logits of some rows of hidden: float32 [rows.size(), vocab], with their
  /// statistics. Valid until the next call. rows.size() <= max_logit_rows. Only where the part has
  /// the head.
  struct Logits {
    TensorView values;
    std::span<const RowStatistics> statistics;
  };
  Logits logits(ConstTensorView hidden, std::span<const std::int32_t> rows);

  const ModelConfig& config() const { return config_; }
  const StagePart& part() const { return part_; }

 private:
  void run_layer(int index, TensorView hidden, std::span<const SequenceRows> sequences);
  void fill_rotations(std::span<const SequenceRows> sequences);
  KvLayer kv_layer(int index) const;
  TensorView workspace(const Buffer& buffer, std::int64_t rows, std::int64_t cols,
                       DType dtype) const;

  ModelConfig config_;
  StagePart part_;
  StageWeights weights_;
  Ops& ops_;
  StageSize size_;
  AttentionShape attention_;
  std::vector<float> inverse_frequencies_;  // [rotary_dim / 2]
  std::size_t block_bytes_ = 0;
  Buffer kv_;         // [layers, num_blocks, block_bytes]
  Buffer normed_;     // compute type [max_rows, hidden]
  Buffer wide_;       // float32: qkv or gate_up
  Buffer queries_;    // compute type [max_rows, heads * head_dim]
  Buffer inner_;      // compute type [max_rows, heads * head_dim or intermediate]
  Buffer rotations_;  // float32 [max_rows, rotary_dim]
  Buffer gathered_;   // float32 [max_logit_rows, hidden]
  Buffer logits_;     // float32 [max_logit_rows, vocab]
  std::vector<RowStatistics> statistics_;
};

/// Bytes of the stage's workspace and of one KV block over all its layers, for the memory plan.
std::size_t stage_workspace_bytes(const ModelConfig& config, const StagePart& part, DType dtype,
                                  const StageSize& size);
std::size_t stage_block_bytes(const ModelConfig& config, const StagePart& part, const Ops& ops,
                              int block_tokens);

/// The heads of the model's attention as the operators see them.
AttentionShape attention_shape(const ModelConfig& config);

}  // namespace headrace
