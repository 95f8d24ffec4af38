// Executes StepPlans on one rank of a stage: keeps the page tables of running sequences, turns a
// plan into rows for the model, and on the last stage draws the tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/shard_exchange.h"
#include "model/stage_model.h"
#include "runtime/sampling/sampler.h"
#include "runtime/schedule/step_plan.h"

namespace headrace {

struct ExecutorLimits {
  int max_num_seqs = 0;
  int max_length = 0;      // of one sequence
  int max_logit_rows = 0;  // of StageSize
};

/// Rows of logits that this rank has drawn from, other than those of which the best logit is
/// enough.
struct DrawCounts {
  std::int64_t from_leaders = 0;  // nothing else came from the device
  std::int64_t from_rows = 0;
};

class StageExecutor {
 public:
  /// model, pool and exchange must outlive it. exchange: with the ranks that share the stage, in
  /// host memory; null where the rank has the stage to itself.
  StageExecutor(StageModel& model, ThreadPool& pool, ExecutorLimits limits,
                ShardExchange* exchange = nullptr);

  /// Where the model's tensors lie.
  DeviceArena& arena() const { return model_.arena(); }

  /// Applies the plan's changes, then runs this stage's layers on hidden, float32 [rows, hidden] in
  /// the arena, in place. Plans must come in the head's order. All ranks of the stage together.
  void forward(const StepPlan& plan, TensorView hidden);

  /// Tokens and scores of the step that forward() just ran. Only on the last stage, all its ranks
  /// together: each draws its share of the rows, the first one has the result.
  StepResult sample(const StepPlan& plan, ConstTensorView hidden);

  const DrawCounts& draw_counts() const { return draw_counts_; }

 private:
  void apply(const StepPlan& plan);
  template <class Body>
  void in_turns(std::span<const std::int32_t> rows, const Body& body) const;
  void draw(int first, const StageModel::Logits& logits);
  void sample_greedy(ConstTensorView hidden);
  void collect_best();
  void collect_drawn();
  std::vector<IndexRange> drawn_rows(int tensor_rank) const;

  StageModel& model_;
  ThreadPool& pool_;
  ShardExchange* exchange_;
  ExecutorLimits limits_;
  /// What a KV group has of the running sequences and of the current step.
  struct Group {
    int pages_per_block = 1;
    std::vector<std::vector<std::int32_t>> tables;  // pages by slot
    std::vector<SequenceRows> rows;                 // of the current step
  };
  void append_pages(Group& group, Slot slot, std::span<const BlockId> blocks);

  std::vector<Group> groups_;
  std::vector<std::span<const SequenceRows>> rows_of_groups_;  // of the current step
  int touched_blocks_ = 0;                 // ids below have been written to, or prepared for it
  std::vector<std::int32_t> max_lengths_;  // by slot
  std::optional<Sampler> sampler_;         // on the last stage
  std::vector<ScoredToken> drawn_;         // by this rank, for the first one
  std::vector<std::byte> drawn_bytes_;
  std::vector<BestLogit> best_;  // of the step's greedy rows
  DrawCounts draw_counts_;
};

/// Bytes of a rank's buffer in the exchange of a last stage: its share of a step's tokens.
std::size_t drawn_exchange_bytes(int max_rows, int max_num_seqs);

}  // namespace headrace
