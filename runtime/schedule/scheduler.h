// Decides what runs next. A pure state machine: no clock, no device, no thread, no randomness. The
// head drives it with real stages, simulations with a virtual clock, tests with a script.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/kv_groups.h"
#include "model/token.h"
#include "runtime/sampling/sampling_params.h"
#include "runtime/schedule/step_plan.h"

namespace headrace {

/// The caller's name of a sequence, unique while it lives.
using SequenceId = std::int64_t;

struct SchedulerLimits {
  int num_micro_batches = 1;       // steps in flight at most
  int max_num_seqs = 256;          // sequences admitted at most
  int max_rows = 512;              // rows of a step at most (--max-num-batched-tokens)
  int efficient_rows = 64;         // from here on a larger step costs no less for a row
  int num_blocks = 0;              // of the smallest stage; all KV groups take theirs from these
  int num_swap_blocks = 0;         // in host memory, for what is preempted; 0: it is computed again
  int block_tokens = 16;           // of a page
  KvGroups kv = {};                // blocks behind a group's window are used again
  int max_model_len = 0;           // prompt and completion together
  std::size_t max_plan_bytes = 0;  // encoded size of a StepPlan at most; 0: no limit
};

enum class FinishReason : std::uint8_t { kNone, kStop, kLength };

struct NewSequence {
  SequenceId id = 0;
  std::vector<TokenId> tokens;  // prompt, then tokens of an earlier run of the job
  int num_prompt_tokens = 0;
  int max_tokens = 0;  // generated tokens at most, earlier ones included; 0: score only
  std::vector<TokenId>
      stop_token_ids;  // ascending; ends the sequence, once min_tokens are generated
  int priority = 0;    // lower is earlier; ties in order of add()
  SamplingParams params;
};

/// Something the head learned from a finished step.
struct SequenceEvent {
  SequenceId id = 0;
  std::vector<ScoredToken> prompt_scores;  // next positions of the prompt, in order
  bool has_token = false;
  ScoredToken token;
  FinishReason finish = FinishReason::kNone;
};

struct SchedulerStats {
  int num_waiting = 0;    // added, without a slot
  int num_running = 0;    // with a slot
  int num_in_flight = 0;  // steps
  int num_free_blocks = 0;
  int num_free_swap_blocks = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t num_swapped_sequences = 0;  // of the preemptions, those that kept what was computed
  std::int64_t num_swapped_blocks = 0;     // by them
  std::int64_t num_recomputed_tokens = 0;  // rows computed again after preemption
  std::int64_t num_waiting_prompt_tokens = 0;
};

class Scheduler {
 public:
  explicit Scheduler(
      const SchedulerLimits& limits);  // std::invalid_argument for limits that cannot work
  ~Scheduler();

  /// The smallest max_plan_bytes that works: one step of max_rows with one admission of any size.
  static std::size_t min_plan_bytes(const SchedulerLimits& limits);

  /// Blocks that a sequence of so many tokens holds at most, all KV groups together. One that
  /// needs no more than num_blocks can always be scheduled.
  static int blocks_for(const SchedulerLimits& limits, int num_tokens);

  /// False where the sequence can never fit (blocks or max_model_len); the caller reports it.
  /// Throws std::invalid_argument for one that is malformed (no prompt, id in use, too many
  /// biases).
  [[nodiscard]] bool add(NewSequence sequence);

  /// add() for a sequence whose request was found to fit. Throws std::logic_error where it does
  /// not.
  void add_checked(NewSequence sequence);

  /// Ends a sequence from outside (a stop string was seen). Its tokens in flight are dropped when
  /// they arrive; unknown ids are ignored, since the sequence may have ended by itself.
  void stop(SequenceId id);

  /// The next step, or nullopt: as many steps as allowed are in flight, or nothing can run now.
  std::optional<StepPlan> next();

  /// Takes the result of a step; steps complete in the order in which next() gave them. Every step
  /// completes, also one that neither samples nor scores. Throws std::logic_error for a result that
  /// is not the oldest step's.
  std::vector<SequenceEvent> complete(const StepResult& result);

  /// No sequence waits, runs or is in flight.
  bool idle() const;
  SchedulerStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace
