// The forward pass of one stage: from token ids or hidden states to hidden states, and on the last
// stage to logits. Owns the weights, the KV cache of its layers and the workspace; all memory is
// taken once. The same code runs every supported family; what differs is in ModelConfig.
//
// Where ranks share a stage, each has its own heads, intermediate columns and vocabulary rows, and
// the whole hidden state: after every row-parallel product the ranks exchange the roots of their
// part of the sum, and each adds all of them in the one order of the whole matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/tensor_exchange.h"
#include "kernels/ops.h"
#include "model/config.h"
#include "model/kv_groups.h"
#include "model/rotations.h"
#include "model/stage_memory.h"
#include "model/stage_weights.h"
#include "model/token.h"

namespace headrace {

/// The rows of a step as the layers of each KV group see them: the same rows, with the pages of
/// that group.
using RowsOfGroups = std::span<const std::span<const SequenceRows>>;  // [groups][sequences]

class StageModel {
 public:
  /// Takes KV cache and workspace of the backend's arena. ops and exchange must outlive it.
  /// exchange: with the other ranks of the stage, of stage_exchange_bytes(), its buffers where the
  /// operators reach them; null where there are none.
  StageModel(const ModelConfig& config, StagePart part, StageWeights weights, Ops& ops,
             const StageSize& size, TensorExchange* exchange = nullptr);

  /// One step through this stage's layers, in place; all ranks of the stage together. hidden:
  /// float32 [rows, hidden], in the backend's arena; on the first stage it is written from `tokens`
  /// (one id a row), elsewhere it holds what the stage before sent.
  void forward(TensorView hidden, std::span<const TokenId> tokens, RowsOfGroups rows);

  /// Final norm and logits of some rows of hidden, with their statistics; all ranks of the stage
  /// together. Each gets those of the rows that are its own (own_rows()), of the whole vocabulary.
  /// temperatures: none, or one for each of `rows` at which its leaders are wanted, 0 where they
  /// are not. Where the backend has leaders (Ops::leading_logits()), values are still to be
  /// brought. Valid until the next call. rows.size() <= max_logit_rows. Only where the part has the
  /// head.
  struct Logits {
    TensorView values;                          // float32 [own rows, vocab], for the host
    std::span<const RowStatistics> statistics;  // [own rows]
    std::span<const RowLeaders> leaders;        // [own rows], or empty: all values are there
  };
  Logits logits(ConstTensorView hidden, std::span<const std::int32_t> rows,
                std::span<const float> temperatures = {});

  /// Brings the values of some of these own rows, numbered as in Logits, to the host.
  void bring_logits(IndexRange rows);

  /// Of the same kind of rows only the best logit of each, which is all that greedy sampling needs:
  /// of this rank's ids, the id counted in the whole vocabulary; -1 where it has none. For the
  /// rows of all ranks. Valid until the next call.
  std::span<const BestLogit> best_logits(ConstTensorView hidden,
                                         std::span<const std::int32_t> rows);

  /// Of num_rows rows of logits, those that a rank of the stage gets.
  IndexRange own_rows(int num_rows, int tensor_rank) const;

  const ModelConfig& config() const { return config_; }
  const StagePart& part() const { return part_; }
  const StageSize& size() const { return size_; }

  /// Copies what all layers have of some blocks into the host's swap memory, or back; behind the
  /// operators that were called before. Throws std::logic_error for blocks that are not there.
  void save_blocks(std::span<const BlockSwap> blocks);
  void restore_blocks(std::span<const BlockSwap> blocks);

  /// Takes memory from the system for all blocks up to `block`, where those below first_new have
  /// theirs. Gives the first one without: what the next call has as first_new.
  int touch_blocks(int first_new, int block, ThreadPool& pool);
  DeviceArena& arena() const { return ops_.arena(); }

 private:
  /// A row-parallel product, how its parts meet, and the norm of what it gives.
  struct RowParallel {
    const Linear& linear;
    const ShardedSum& sum;
    const NormWeights& post_norm;
  };

  void embed(TensorView hidden, std::span<const TokenId> tokens,
             std::span<const SequenceRows> sequences);
  void embed_tokens(TensorView hidden, std::span<const TokenId> tokens);
  void add_positions(TensorView hidden, std::span<const SequenceRows> sequences);
  void run_layer(int index, TensorView hidden, RowsOfGroups rows);
  TensorView attend(int index, const ProductInput& normed, RowsOfGroups rows);
  ProductInput run_mlp(const LayerWeights& weights, const ProductInput& normed);
  void norm_queries_and_keys(const LayerWeights& weights, TensorView qkv);
  void norm_each_head(const LayerWeights& weights, TensorView qkv);
  void norm_shared_projections(const LayerWeights& weights, TensorView qkv);
  TensorView pre_norm(ConstTensorView hidden, const NormWeights& weights);
  ProductInput input_of_one(ConstTensorView hidden, const NormWeights& weights);
  void add_outcome(TensorView hidden, const ProductInput& x, const RowParallel& product);
  void add_product(TensorView hidden, const ProductInput& x, const RowParallel& product);
  void add_gathered(TensorView hidden, const RowParallel& product);
  void add_summed(TensorView hidden, TensorView own, const RowParallel& product);
  Norm norm_of(const NormWeights& weights) const;
  ConstTensorView normed_for_head(ConstTensorView hidden, std::span<const std::int32_t> rows);
  void multiply_by_head(TensorView values, ConstTensorView normed, IndexRange own);
  KvLayer kv_layer(int index) const;
  bool has_swap(std::span<const BlockSwap> blocks) const;
  void take_workspace();
  struct Run {
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };
  void copy_columns(TensorView to, std::int64_t to_col, ConstTensorView from, Run columns);
  void copy_rows(TensorView to, std::int64_t to_row, ConstTensorView from, Run rows);
  void gather(TensorView gathered, ConstTensorView hidden, std::span<const std::int32_t> rows);

  ModelConfig config_;
  StagePart part_;
  StageWeights weights_;
  Ops& ops_;
  StageSize size_;
  TensorExchange* exchange_;
  StageShard shard_;
  AttentionShape attention_;
  LogitChange logit_change_;
  Rotations rotations_;
  std::optional<Rotations> window_rotations_;  // of windowed layers, where they have their own
  KvPlaces kv_places_;
  // In the arena; null where the part has no use for it.
  std::byte* kv_ = nullptr;           // num_blocks blocks, as kv_places_ says
  std::unique_ptr<SwapMemory> swap_;  // of num_swap_blocks
  std::byte* normed_ = nullptr;       // compute type [max_rows, hidden]
  std::byte* wide_ = nullptr;         // float32: qkv or gate_up
  std::byte* queries_ = nullptr;      // compute type [max_rows, heads * head_dim]
  std::byte* inner_ = nullptr;        // compute type [max_rows, heads * head_dim or intermediate]
  // float32 [max_rows, hidden]: what is still changed before it is added
  std::byte* outcome_ = nullptr;
  // float32 [max_rows, queries and keys of all heads]: to be normed together
  std::byte* projections_ = nullptr;
  std::byte* gathered_ = nullptr;  // float32 [max_logit_rows, hidden]
  MirroredMemory logits_;          // float32 [own rows of max_logit_rows, vocab]
  std::vector<RowStatistics> statistics_;
  std::vector<BestLogit> best_;
  std::vector<const float*> partials_;   // of the sum at hand
  std::vector<std::size_t> given_;       // bytes of the round at hand, by rank of the stage
  std::vector<std::int32_t> in_turn_;    // merges of a sum ((0 + 1) + 2) + ...
  std::vector<TokenId> own_tokens_;      // of the step, as rows of the embedding
  std::vector<std::int32_t> positions_;  // of the step's rows, where they are learned
};

}  // namespace headrace
