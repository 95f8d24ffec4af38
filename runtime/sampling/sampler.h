// Draws tokens from logits on the last stage. Keeps, by slot, what penalties and random numbers
// need: the tokens of each running sequence. A token depends on its own sequence and logits only.
#pragma once

#include <memory>
#include <span>

#include "kernels/ops.h"
#include "runtime/schedule/step_plan.h"

namespace headrace {

class ThreadPool;

/// Philox4x32-10 (Salmon et al., 2011): four 32-bit words for a 128-bit counter and a 64-bit key.
struct PhiloxCounter {
  std::uint32_t word[4];
};
PhiloxCounter philox4x32_10(PhiloxCounter counter, std::uint64_t key);

class Sampler {
 public:
  /// Rows are shared among the pool's threads, where one is given; it must outlive the sampler.
  Sampler(int max_num_seqs, int vocab_size, ThreadPool* pool = nullptr);
  ~Sampler();

  /// Applies releases and admissions and takes in the rows' tokens. Call once for each step, in
  /// order, after the result() of the step before and before its own; on the last stage only.
  /// Throws std::runtime_error for slots and ids that do not exist.
  void begin(const StepPlan& plan);

  /// Indices of the rows of the step whose logits are needed, ascending.
  static std::vector<std::int32_t> rows_with_logits(const StepPlan& plan);

  /// logits: float32 [rows_with_logits, vocab]; statistics: one a row of logits. Logits are changed
  /// while a row is drawn and put back. Throws std::runtime_error where they are not finite.
  StepResult result(const StepPlan& plan, TensorView logits,
                    std::span<const RowStatistics> statistics);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace
