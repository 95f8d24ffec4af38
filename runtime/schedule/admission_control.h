// How fast prompts enter: the arithmetic behind Scheduler's choice, without its state.
//
// A pipeline is full when all its micro-batches cost the same. Decode rows are divided evenly;
// prompt rows should come at the rate at which decodes use up sequences, so that each step has the
// same mix from the first to the last hour of a job: p = d * R rows a step beside d decode rows,
// where R is the number of prompt tokens for each generated one.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/schedule/scheduler.h"

namespace headrace {

/// How much of max_tokens sequences really use, learned from those that ended. Starts at all of it,
/// moves towards what is seen, and back by a step whenever blocks ran out.
class OutputEstimate {
 public:
  void sequence_ended(int num_generated, int max_tokens);
  void blocks_ran_out();

  /// Tokens a sequence will still generate, by expectation; never more than it may.
  int remaining(int num_generated, int max_tokens) const;
  double fraction() const { return fraction_; }

 private:
  double fraction_ = 1.0;
  int num_seen_ = 0;
};

/// Blocks the running sequences will hold at their worst moment, when all advance by a token a
/// round and each frees its blocks once its remaining tokens are generated.
class KvProjection {
 public:
  explicit KvProjection(const SchedulerLimits& limits);

  void clear() { sequences_.clear(); }
  void add(int num_tokens, int remaining);
  std::int64_t peak_blocks() const;

  /// Adds the sequence if the peak then stays within num_blocks.
  bool add_if_it_fits(int num_tokens, int remaining, int num_blocks);

 private:
  struct Item {
    int num_tokens;
    int remaining;
  };
  struct Group {
    int block_tokens;
    int max_held_tokens;  // of a sequence; 0: all
  };
  std::vector<Item>::iterator insert(Item item);
  std::int64_t blocks_after(int rounds, const Group& group, std::size_t count,
                            std::int64_t tokens) const;

  std::vector<Group> groups_;
  std::vector<Item> sequences_;  // by remaining, descending
};

/// Sums over all sequences that wait or run.
struct Workload {
  std::int64_t num_sequences = 0;
  std::int64_t num_prompt_tokens = 0;      // whole prompts, computed or not
  double num_output_tokens = 0;            // expected, over whole lives
  std::int64_t num_uncomputed_tokens = 0;  // still to be prefilled
};

/// Prompt rows for a step that has num_decode_rows; at most max_rows - num_decode_rows.
int prefill_rows(const SchedulerLimits& limits, const Workload& workload, int num_decode_rows);

}  // namespace headrace
