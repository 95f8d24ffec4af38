#include "runtime/pipeline/stage_executor.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "runtime/schedule/step_wire.h"

namespace headrace {

StageExecutor::StageExecutor(StageModel& model, ThreadPool& pool, ExecutorLimits limits,
                             ShardExchange* exchange)
    : model_(model),
      exchange_(exchange),
      limits_(limits),
      tables_(static_cast<std::size_t>(limits.max_num_seqs)),
      max_lengths_(static_cast<std::size_t>(limits.max_num_seqs)) {
  for (std::vector<BlockId>& table : tables_) {
    table.reserve(static_cast<std::size_t>(limits.max_blocks));
  }
  sequences_.reserve(static_cast<std::size_t>(limits.max_num_seqs));
  if (model.part().head) sampler_.emplace(limits.max_num_seqs, model.config().vocab_size, &pool);
}

void StageExecutor::apply(const StepPlan& plan) {
  for (const Slot slot : plan.released) tables_.at(static_cast<std::size_t>(slot)).clear();
  for (const Admission& admission : plan.admitted) {
    max_lengths_.at(static_cast<std::size_t>(admission.slot)) = admission.max_length;
  }
  sequences_.clear();
  std::size_t next_block = 0;
  std::int32_t next_row = 0;
  for (const StepEntry& entry : plan.entries) {
    const auto slot = static_cast<std::size_t>(entry.slot);
    std::vector<BlockId>& table = tables_.at(slot);
    for (int i = 0; i < entry.num_new_blocks; ++i)
      table.push_back(plan.new_blocks.at(next_block++));
    sequences_.push_back({.first_row = next_row,
                          .num_rows = entry.num_rows,
                          .first_position = entry.first_position,
                          .blocks = table.data(),
                          .max_length = max_lengths_.at(slot)});
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

// Logits are taken for a few rows at a time, so that they never need room for a whole step of them.
StepResult StageExecutor::sample(const StepPlan& plan, ConstTensorView hidden) {
  sampler_->begin(plan);
  const std::span<const std::int32_t> rows = sampler_->rows_with_logits();
  const auto most = static_cast<std::size_t>(limits_.max_logit_rows);
  for (std::size_t at = 0; at < rows.size(); at += most) {
    const auto turn = rows.subspan(at, std::min(most, rows.size() - at));
    const StageModel::Logits logits = model_.logits(hidden, turn);
    const IndexRange own =
        model_.own_rows(static_cast<int>(turn.size()), model_.part().tensor_rank);
    sampler_->draw(static_cast<int>(at) + own.begin, logits.values, logits.statistics);
  }
  if (exchange_ != nullptr) collect_drawn();
  return model_.part().tensor_rank == 0 ? sampler_->take_result() : StepResult{};
}

// Of the step's rows with logits, those that a rank draws: its own of every turn.
std::vector<IndexRange> StageExecutor::drawn_rows(int tensor_rank) const {
  std::vector<IndexRange> ranges;
  const int num_rows = static_cast<int>(sampler_->rows_with_logits().size());
  for (int at = 0; at < num_rows; at += limits_.max_logit_rows) {
    const IndexRange own =
        model_.own_rows(std::min(limits_.max_logit_rows, num_rows - at), tensor_rank);
    ranges.push_back({at + own.begin, at + own.end});
  }
  return ranges;
}

void StageExecutor::collect_drawn() {
  drawn_.clear();
  drawn_bytes_.clear();
  const bool is_first = exchange_->rank() == 0;
  if (!is_first) {
    for (const IndexRange& own : drawn_rows(exchange_->rank())) {
      sampler_->append_drawn(own, drawn_);
    }
    encode(drawn_, drawn_bytes_);
    if (drawn_bytes_.size() > exchange_->own().size()) {
      throw std::logic_error("the tokens of a step need " + std::to_string(drawn_bytes_.size()) +
                             " bytes, the exchange has " + std::to_string(exchange_->own().size()));
    }
    std::memcpy(exchange_->own().data(), drawn_bytes_.data(), drawn_bytes_.size());
  }
  exchange_->publish(drawn_bytes_.size());
  exchange_->complete();
  if (!is_first) return;
  for (int rank = 1; rank < exchange_->size(); ++rank) {
    const std::vector<ScoredToken> tokens = decode_scored_tokens(exchange_->part(rank));
    std::span<const ScoredToken> left = tokens;
    for (const IndexRange& rows : drawn_rows(rank)) left = sampler_->fill_drawn(rows, left);
  }
}

std::size_t drawn_exchange_bytes(int max_rows, int max_num_seqs) {
  return static_cast<std::size_t>(max_rows + max_num_seqs) * kMaxScoredTokenBytes;
}

}  // namespace headrace
