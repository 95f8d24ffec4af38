#include "runtime/schedule/swap_space.h"

#include <algorithm>
#include <utility>

#include "kernels/ceil_div.h"

namespace headrace {

// Every decode row needs at most a new block in each group, and sequences are preempted until these
// are there: what they free beyond belongs to the last one.
int most_saves(const SchedulerLimits& limits) {
  const std::int64_t by_rows = std::int64_t{limits.max_rows} * limits.kv.size() +
                               Scheduler::blocks_for(limits, limits.max_model_len);
  return static_cast<int>(
      std::min<std::int64_t>({limits.num_swap_blocks, limits.num_blocks, by_rows}));
}

int most_restores(const SchedulerLimits& limits) {
  return std::min({limits.num_swap_blocks, limits.num_blocks,
                   Scheduler::blocks_for(limits, limits.max_model_len)});
}

int most_places(const SchedulerLimits& limits) {
  int places = 0;
  for (int g = 0; g < limits.kv.size(); ++g) {
    places += ceil_div(limits.max_model_len, tokens_per_block(limits, g));
  }
  return places;
}

SwapSpace::SwapSpace(const SchedulerLimits& limits) : pool_(limits.num_swap_blocks) {
  saves_.reserve(static_cast<std::size_t>(most_saves(limits)));
}

bool SwapSpace::save(const SchedulerLimits& limits, Sequence& sequence) {
  if (pool_.num_blocks() == 0 || sequence.num_computed < limits.block_tokens) return false;
  if (sequence.params.has_penalties()) return false;
  const int num_kept = SequenceBlocks::num_kept(limits, sequence.num_computed);
  if (num_kept > pool_.num_free() || num_saves() + num_kept > most_saves(limits)) return false;
  kept_.clear();
  sequence.blocks.append_kept(limits, sequence.num_computed, kept_);
  for (const BlockId block : kept_) {
    sequence.swap_blocks.push_back(*pool_.try_allocate());
    saves_.push_back({.block = block, .swap_block = sequence.swap_blocks.back()});
  }
  num_sequences_ += 1;
  num_blocks_ += num_kept;
  return true;
}

void SwapSpace::restore(const SchedulerLimits& limits, Sequence& sequence,
                        std::vector<BlockSwap>& restores) {
  kept_.clear();
  sequence.blocks.append_kept(limits, sequence.num_computed, kept_);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    restores.push_back({.block = kept_[i], .swap_block = sequence.swap_blocks[i]});
  }
  release(sequence);
}

// A save that no plan has taken yet would write to blocks that are another's by then.
void SwapSpace::drop(Sequence& sequence) {
  std::erase_if(saves_, [&](const BlockSwap& save) {
    return std::ranges::find(sequence.swap_blocks, save.swap_block) != sequence.swap_blocks.end();
  });
  release(sequence);
}

// In reverse, so that those used next are the same, in the same order: blocks in a row travel
// together.
void SwapSpace::release(Sequence& sequence) {
  while (!sequence.swap_blocks.empty()) {
    pool_.release(sequence.swap_blocks.back());
    sequence.swap_blocks.pop_back();
  }
}

std::vector<BlockSwap> SwapSpace::take_saves() {
  std::vector<BlockSwap> saves(saves_);
  saves_.clear();
  return saves;
}

}  // namespace headrace
