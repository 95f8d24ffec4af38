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
      pool_(pool),
      exchange_(exchange),
      limits_(limits),
      max_lengths_(static_cast<std::size_t>(limits.max_num_seqs)) {
  const auto num_seqs = static_cast<std::size_t>(limits.max_num_seqs);
  const StageSize& size = model.size();
  for (const KvGroup& kv : size.kv.groups) {
    Group group{.pages_per_block = kv.pages_per_block, .tables = {}, .rows = {}};
    group.tables.resize(num_seqs);
    const int pages = (limits.max_length + size.block_tokens - 1) / size.block_tokens;
    for (auto& table : group.tables) {
      const int most_pages = pages + kv.pages_per_block;
      table.reserve(static_cast<std::size_t>(most_pages));
    }
    group.rows.reserve(num_seqs);
    groups_.push_back(std::move(group));
  }
  rows_of_groups_.resize(groups_.size());
  if (model.part().head) sampler_.emplace(limits.max_num_seqs, model.config().vocab_size, &pool);
}

// A block is as many pages of its group, one after the other.
void StageExecutor::append_pages(Group& group, Slot slot, std::span<const BlockId> blocks) {
  std::vector<std::int32_t>& table = group.tables.at(static_cast<std::size_t>(slot));
  for (const BlockId block : blocks) {
    for (int i = 0; i < group.pages_per_block; ++i) {
      table.push_back(block * group.pages_per_block + i);
    }
  }
}

void StageExecutor::apply(const StepPlan& plan) {
  if (!plan.entries.empty() && plan.num_kv_groups != static_cast<int>(groups_.size())) {
    throw std::logic_error("step " + std::to_string(plan.id) + ": has " +
                           std::to_string(plan.num_kv_groups) + " KV groups, the stage " +
                           std::to_string(groups_.size()));
  }
  model_.save_blocks(plan.saves);
  for (Group& group : groups_) {
    for (const Slot slot : plan.released) group.tables.at(static_cast<std::size_t>(slot)).clear();
    group.rows.clear();
  }
  for (const Admission& admission : plan.admitted) {
    max_lengths_.at(static_cast<std::size_t>(admission.slot)) = admission.max_length;
  }
  std::span<const BlockId> blocks = plan.new_blocks;
  for (const BlockId block : blocks) {
    touched_blocks_ = model_.touch_blocks(touched_blocks_, block, pool_);
  }
  model_.restore_blocks(plan.restores);
  std::int32_t next_row = 0;
  for (const StepEntry& entry : plan.entries) {
    const auto slot = static_cast<std::size_t>(entry.slot);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto count = static_cast<std::size_t>(entry.num_new_blocks[g]);
      append_pages(groups_[g], entry.slot, blocks.first(count));
      blocks = blocks.subspan(count);
      groups_[g].rows.push_back({.first_row = next_row,
                                 .num_rows = entry.num_rows,
                                 .first_position = entry.first_position,
                                 .blocks = groups_[g].tables[slot].data(),
                                 .max_length = max_lengths_.at(slot)});
    }
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
  for (std::size_t g = 0; g < groups_.size(); ++g) rows_of_groups_[g] = groups_[g].rows;
  model_.forward(hidden, plan.tokens, rows_of_groups_);
}

// Logits are taken for a few rows at a time, so that they never need room for a whole step of them:
// body(place of the first one among rows, some of them).
template <class Body>
void StageExecutor::in_turns(std::span<const std::int32_t> rows, const Body& body) const {
  const auto most = static_cast<std::size_t>(limits_.max_logit_rows);
  for (std::size_t at = 0; at < rows.size(); at += most) {
    body(at, rows.subspan(at, std::min(most, rows.size() - at)));
  }
}

StepResult StageExecutor::sample(const StepPlan& plan, ConstTensorView hidden) {
  sampler_->begin(plan);
  sample_greedy(hidden);
  const std::span<const std::int32_t> rows = sampler_->rows_with_logits();
  const std::span<const float> temperatures = sampler_->leader_temperatures();
  in_turns(rows, [&](std::size_t at, std::span<const std::int32_t> turn) {
    const StageModel::Logits logits =
        model_.logits(hidden, turn, temperatures.subspan(at, turn.size()));
    const IndexRange own =
        model_.own_rows(static_cast<int>(turn.size()), model_.part().tensor_rank);
    draw(static_cast<int>(at) + own.begin, logits);
  });
  if (exchange_ != nullptr && !rows.empty()) collect_drawn();
  return model_.part().tensor_rank == 0 ? sampler_->take_result() : StepResult{};
}

// Only the rows whose leaders do not tell the token come to the host.
void StageExecutor::draw(int first, const StageModel::Logits& logits) {
  std::int64_t num_whole = logits.values.rows;
  if (!logits.leaders.empty()) {
    num_whole = 0;
    for (const IndexRange& rows :
         sampler_->draw_from_leaders(first, logits.leaders, logits.statistics)) {
      model_.bring_logits(rows);
      num_whole += rows.size();
    }
  }
  draw_counts_.from_leaders += logits.values.rows - num_whole;
  draw_counts_.from_rows += num_whole;
  sampler_->draw(first, logits.values, logits.statistics);
}

// Every rank of the stage has the best of its own ids; the first one needs the best of all.
void StageExecutor::sample_greedy(ConstTensorView hidden) {
  const std::span<const std::int32_t> rows = sampler_->greedy_rows();
  if (rows.empty()) return;
  best_.clear();
  in_turns(rows, [&](std::size_t /*at*/, std::span<const std::int32_t> turn) {
    const std::span<const BestLogit> best = model_.best_logits(hidden, turn);
    best_.insert(best_.end(), best.begin(), best.end());
  });
  if (exchange_ != nullptr) collect_best();
  if (model_.part().tensor_rank == 0) sampler_->take_best(best_);
}

void StageExecutor::collect_best() {
  const auto bytes = std::as_bytes(std::span(best_));
  std::memcpy(exchange_->own().data(), bytes.data(), bytes.size());
  exchange_->publish(bytes.size());
  exchange_->complete();
  for (int rank = 0; rank < exchange_->size(); ++rank) {
    if (rank == exchange_->rank()) continue;
    const std::span<const std::byte> part = exchange_->part(rank);
    for (std::size_t row = 0; row < best_.size(); ++row) {
      BestLogit theirs;
      std::memcpy(&theirs, part.data() + row * sizeof(theirs), sizeof(theirs));
      best_[row] = better(best_[row], theirs);
    }
  }
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
  static_assert(sizeof(BestLogit) <= kMaxScoredTokenBytes);
  return static_cast<std::size_t>(max_rows + max_num_seqs) * kMaxScoredTokenBytes;
}

}  // namespace headrace
