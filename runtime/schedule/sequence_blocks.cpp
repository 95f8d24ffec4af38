#include "runtime/schedule/sequence_blocks.h"

#include <algorithm>

#include "kernels/ceil_div.h"

namespace headrace {
namespace {

const KvGroup& group_of(const SchedulerLimits& limits, int group) {
  return limits.kv.groups[static_cast<std::size_t>(group)];
}

// Where the window of a row begins.
int first_place_read(const SchedulerLimits& limits, int group, int row) {
  const int window = group_of(limits, group).positions_read;
  if (window == 0) return 0;
  return std::max(0, row - window + 1) / tokens_per_block(limits, group);
}

}  // namespace

int tokens_per_block(const SchedulerLimits& limits, int group) {
  return limits.block_tokens * group_of(limits, group).pages_per_block;
}

int blocks_while_prefilled(const SchedulerLimits& limits, int group, int num_tokens) {
  const int block = tokens_per_block(limits, group);
  const int all = ceil_div(num_tokens, block);
  const int window = group_of(limits, group).positions_read;
  return window == 0 ? all : std::min(all, ceil_div(window - 1 + limits.max_rows, block) + 1);
}

int most_held_tokens(const SchedulerLimits& limits, int group) {
  const int window = group_of(limits, group).positions_read;
  return window == 0 ? 0 : window + tokens_per_block(limits, group) - 1;
}

void SequenceBlocks::reserve(const SchedulerLimits& limits, int num_positions) {
  for (int g = 0; g < limits.kv.size(); ++g) {
    const int places = ceil_div(num_positions, tokens_per_block(limits, g));
    tables_[static_cast<std::size_t>(g)].blocks.reserve(static_cast<std::size_t>(places));
  }
}

void SequenceBlocks::take_for_prefill(const SchedulerLimits& limits, BlockPool& pool,
                                      int num_tokens) {
  for (int g = 0; g < limits.kv.size(); ++g) {
    std::vector<BlockId>& ahead = tables_[static_cast<std::size_t>(g)].ahead;
    const int count = blocks_while_prefilled(limits, g, num_tokens);
    for (int i = 0; i < count; ++i) ahead.push_back(*pool.try_allocate());
    std::reverse(ahead.begin(), ahead.end());  // taken from the end
  }
}

SequenceBlocks::Places SequenceBlocks::kept_places(const SchedulerLimits& limits, int group,
                                                   int num_computed) {
  return {.begin = first_place_read(limits, group, num_computed),
          .end = ceil_div(num_computed, tokens_per_block(limits, group))};
}

int SequenceBlocks::num_kept(const SchedulerLimits& limits, int num_computed) {
  int count = 0;
  for (int g = 0; g < limits.kv.size(); ++g) {
    const Places places = kept_places(limits, g, num_computed);
    count += places.end - places.begin;
  }
  return count;
}

void SequenceBlocks::append_kept(const SchedulerLimits& limits, int num_computed,
                                 std::vector<BlockId>& out) const {
  for (int g = 0; g < limits.kv.size(); ++g) {
    const std::vector<BlockId>& blocks = tables_[static_cast<std::size_t>(g)].blocks;
    const Places places = kept_places(limits, g, num_computed);
    out.insert(out.end(), blocks.begin() + places.begin, blocks.begin() + places.end);
  }
}

void SequenceBlocks::take_for_return(const SchedulerLimits& limits, BlockPool& pool,
                                     const Progress& progress) {
  take_for_prefill(limits, pool, progress.num_tokens);
  for (int g = 0; g < limits.kv.size(); ++g) {
    Table& table = tables_[static_cast<std::size_t>(g)];
    const Places kept = kept_places(limits, g, progress.num_computed);
    table.blocks.assign(static_cast<std::size_t>(kept.begin), 0);
    table.num_gone = kept.begin;
    for (int place = kept.begin; place < kept.end; ++place) {
      table.blocks.push_back(table.ahead.back());
      table.ahead.pop_back();
    }
  }
}

// Blocks that the sequence still has, although the whole of them is behind the window of the row.
int SequenceBlocks::num_behind(const SchedulerLimits& limits, int group, const Table& table,
                               int row) {
  return first_place_read(limits, group, row) - table.num_gone;
}

bool SequenceBlocks::add_own_place(const SchedulerLimits& limits, int group, int first_row) {
  Table& table = tables_[static_cast<std::size_t>(group)];
  if (!table.ahead.empty()) {
    table.blocks.push_back(table.ahead.back());
    table.ahead.pop_back();
    return true;
  }
  if (num_behind(limits, group, table, first_row) <= 0) return false;
  table.blocks.push_back(table.blocks[static_cast<std::size_t>(table.num_gone++)]);
  return true;
}

bool SequenceBlocks::cover(const SchedulerLimits& limits, Rows rows, BlockPool* pool) {
  for (int g = 0; g < limits.kv.size(); ++g) {
    const auto places = static_cast<std::size_t>(ceil_div(rows.end, tokens_per_block(limits, g)));
    std::vector<BlockId>& blocks = tables_[static_cast<std::size_t>(g)].blocks;
    while (blocks.size() < places) {
      if (add_own_place(limits, g, rows.begin)) continue;
      const std::optional<BlockId> block = pool == nullptr ? std::nullopt : pool->try_allocate();
      if (!block) return false;
      blocks.push_back(*block);
    }
  }
  return true;
}

int SequenceBlocks::append_unsent(const SchedulerLimits& limits, int group, int end,
                                  std::vector<BlockId>& out) {
  Table& table = tables_[static_cast<std::size_t>(group)];
  const int count = ceil_div(end, tokens_per_block(limits, group)) - table.num_sent;
  const auto first = table.blocks.begin() + table.num_sent;
  out.insert(out.end(), first, first + count);
  table.num_sent += count;
  return count;
}

void SequenceBlocks::release_unneeded(const SchedulerLimits& limits, BlockPool& pool,
                                      int first_row) {
  for (int g = 0; g < limits.kv.size(); ++g) {
    Table& table = tables_[static_cast<std::size_t>(g)];
    for (const BlockId block : table.ahead) pool.release(block);
    table.ahead.clear();
    while (num_behind(limits, g, table, first_row) > 1) {
      pool.release(table.blocks[static_cast<std::size_t>(table.num_gone++)]);
    }
  }
}

// In reverse, so that the tables' first blocks are the first to be used again.
void SequenceBlocks::release_all(BlockPool& pool) {
  for (Table& table : tables_) {
    for (const BlockId block : table.ahead) pool.release(block);
    const auto owned = table.blocks.rend() - table.num_gone;
    for (auto block = table.blocks.rbegin(); block != owned; ++block) pool.release(*block);
    table.blocks.clear();
    table.ahead.clear();
    table.num_gone = 0;
    table.num_sent = 0;
  }
}

}  // namespace headrace
