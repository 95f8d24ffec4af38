// What the head knows of one sequence from add() to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "runtime/schedule/scheduler.h"
#include "runtime/schedule/sequence_blocks.h"

namespace headrace {

/// Place in the queue: smaller is earlier. Unique, and kept through preemption.
struct QueueKey {
  int priority = 0;
  std::int64_t order = 0;

  bool operator<(const QueueKey& other) const {
    return std::tie(priority, order) < std::tie(other.priority, other.order);
  }
};

enum class SequencePhase : std::uint8_t {
  kWaiting,  // no slot, no blocks but perhaps swap blocks
  kPrefill,  // a slot; rows of known tokens are still to be planned
  kDecode,   // a slot; the rows of all known tokens but perhaps the last are planned
  kEnded,    // results that still arrive are dropped
};

/// Shared with the records of steps in flight, which may outlive it in the scheduler.
struct Sequence : std::enable_shared_from_this<Sequence> {
  SequenceId id = 0;
  QueueKey key;
  SequencePhase phase = SequencePhase::kWaiting;
  std::vector<TokenId> tokens;  // prompt, then generated
  int num_prompt_tokens = 0;
  int max_tokens = 0;
  std::vector<TokenId> stop_token_ids;
  SamplingParams params;

  Slot slot = -1;
  SequenceBlocks blocks;
  // Where the contents of its blocks wait while it does (SequenceBlocks::append_kept()).
  std::vector<BlockId> swap_blocks;
  int num_computed = 0;         // leading positions whose rows are planned, and not lost since
  int num_computed_before = 0;  // the most it was before a preemption
  int num_scored = 0;           // prompt positions whose scores were handed out
  int num_steps_in_flight = 0;  // steps with rows of this sequence
  StepId last_step = -1;        // the latest of them

  int num_tokens() const { return static_cast<int>(tokens.size()); }
  int num_generated() const { return num_tokens() - num_prompt_tokens; }
  int num_uncomputed() const { return num_tokens() - num_computed; }
};

}  // namespace headrace
