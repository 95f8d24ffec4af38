// Which preempted sequences keep what they have computed, and where: the blocks of host memory that
// every stage has for its part of theirs. The scheduler's; stages only follow StepPlans.
//
// A plan's saves come before its restores, here as in the stages: decode rows, which may preempt,
// are planned before any sequence is admitted. So what a restore gives back is written to by later
// plans only.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/schedule/block_pool.h"
#include "runtime/schedule/sequence.h"

namespace headrace {

/// Blocks that a plan saves at most: what its rows may need, and what the last sequence that is
/// preempted has beyond. Should there be more, because steps before it could plan nothing, they are
/// computed again.
int most_saves(const SchedulerLimits& limits);

/// Blocks that one sequence restores at most, and places of its tables.
int most_restores(const SchedulerLimits& limits);
int most_places(const SchedulerLimits& limits);

class SwapSpace {
 public:
  explicit SwapSpace(const SchedulerLimits& limits);

  /// Has the blocks of a running sequence saved by the next plan, before they are given back. False
  /// where it is better computed again:
  /// - less than one page is computed, which a few rows of another step give as well;
  /// - its tokens are drawn with penalties: the last stage forgets the tokens of a slot that is
  ///   given back, and learns them from the rows that are computed again;
  /// - there is no room for all its blocks, here or in the plan.
  bool save(const SchedulerLimits& limits, Sequence& sequence);

  /// Appends what brings the sequence's contents back to its blocks, which it has taken anew.
  void restore(const SchedulerLimits& limits, Sequence& sequence, std::vector<BlockSwap>& restores);

  /// Forgets what a waiting sequence has here.
  void drop(Sequence& sequence);

  /// What was to be saved since the last call.
  std::vector<BlockSwap> take_saves();
  int num_saves() const { return static_cast<int>(saves_.size()); }

  int num_free() const { return pool_.num_free(); }
  std::int64_t num_sequences() const { return num_sequences_; }  // saved so far
  std::int64_t num_blocks() const { return num_blocks_; }        // by them

 private:
  void release(Sequence& sequence);

  BlockPool pool_;
  std::vector<BlockSwap> saves_;
  std::vector<BlockId> kept_;  // of the sequence at hand
  std::int64_t num_sequences_ = 0;
  std::int64_t num_blocks_ = 0;
};

}  // namespace headrace
