// Executes StepPlans on one stage: keeps the block tables of running sequences, turns a plan into
// rows for the model, and on the last stage draws the tokens.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/stage_model.h"
#include "runtime/sampling/sampler.h"
#include "runtime/schedule/step_plan.h"

namespace headrace {

class StageExecutor {
 public:
  /// model and pool must outlive it. max_blocks: of one sequence.
  StageExecutor(StageModel& model, ThreadPool& pool, int max_num_seqs, int max_blocks);

  /// Applies the plan's changes, then runs this stage's layers on hidden, float32 [rows, hidden],
  /// in place. Plans must come in the head's order.
  void forward(const StepPlan& plan, TensorView hidden);

  /// Tokens and scores of the step that forward() just ran. Only on the last stage.
  StepResult sample(const StepPlan& plan, ConstTensorView hidden);

 private:
  void apply(const StepPlan& plan);

  StageModel& model_;
  std::vector<std::vector<BlockId>> tables_;  // by slot
  std::vector<SequenceRows> sequences_;       // of the current step
  std::optional<Sampler> sampler_;            // on the last stage
};

}  // namespace headrace
