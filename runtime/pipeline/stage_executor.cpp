#include "runtime/pipeline/stage_executor.h"

#include <stdexcept>
#include <string>

namespace headrace {

StageExecutor::StageExecutor(StageModel& model, ThreadPool& pool, int max_num_seqs, int max_blocks)
    : model_(model), tables_(static_cast<std::size_t>(max_num_seqs)) {
  for (std::vector<BlockId>& table : tables_) table.reserve(static_cast<std::size_t>(max_blocks));
  sequences_.reserve(static_cast<std::size_t>(max_num_seqs));
  if (model.part().head) sampler_.emplace(max_num_seqs, model.config().vocab_size, &pool);
}

void StageExecutor::apply(const StepPlan& plan) {
  for (const Slot slot : plan.released) tables_.at(static_cast<std::size_t>(slot)).clear();
  sequences_.clear();
  std::size_t next_block = 0;
  std::int32_t next_row = 0;
  for (const StepEntry& entry : plan.entries) {
    std::vector<BlockId>& table = tables_.at(static_cast<std::size_t>(entry.slot));
    for (int i = 0; i < entry.num_new_blocks; ++i)
      table.push_back(plan.new_blocks.at(next_block++));
    sequences_.push_back({.first_row = next_row,
                          .num_rows = entry.num_rows,
                          .first_position = entry.first_position,
                          .blocks = table.data()});
    next_row += entry.num_rows;
  }
  if (next_row != plan.num_rows()) {
    throw std::logic_error("step " + std::to_string(plan.id) + ": entries have " +
                           std::to_string(next_row) + " rows, tokens " +
                           std::to_string(plan.num_rows()));
  }
}

void StageExecutor::forward(const StepPlan& plan, TensorView hidden) {
  apply(plan);
  model_.forward(hidden, plan.tokens, sequences_);
}

StepResult StageExecutor::sample(const StepPlan& plan, ConstTensorView hidden) {
  sampler_->begin(plan);
  const std::vector<std::int32_t> rows = Sampler::rows_with_logits(plan);
  const StageModel::Logits logits = model_.logits(hidden, rows);
  return sampler_->result(plan, logits.values, logits.statistics);
}

}  // namespace headrace
