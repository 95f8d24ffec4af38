// Draws tokens from logits on the last stage. Keeps, by slot, what penalties and random numbers
// need: the tokens of each running sequence. A token depends on its own sequence and logits only,
// so a step's rows may come in any number of turns, and ranks that share the stage may share them.
// Where logits lie on a device, most rows are drawn from their leaders, with the same result.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "partition/index_range.h"
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
  /// order; on the last stage only. Throws
  /// std::runtime_error for slots and ids that do not exist.
  void begin(const StepPlan& plan);

  /// Indices of the rows of the step whose logits are needed, ascending.
  std::span<const std::int32_t> rows_with_logits() const;

  /// Likewise of those whose best logit is enough: sampled greedily from the model's own logits,
  /// with no log-probability asked for. Other rows than those above.
  std::span<const std::int32_t> greedy_rows() const;

  /// The best logits of all greedy rows. Their tokens have 0 for a log-probability. Throws
  /// std::runtime_error where logits are not finite.
  void take_best(std::span<const BestLogit> best);

  /// For each row with logits the temperature at which its leaders may be all that it takes to draw
  /// from it, 0 where it takes the whole row: what Ops::leading_logits() wants.
  std::span<const float> leader_temperatures() const;

  /// Draws from some of these rows, the first one given by its place among them, as far as their
  /// leaders at these temperatures go. Gives the others, as runs of places from the first one on.
  /// Throws std::runtime_error where logits are not finite.
  std::span<const IndexRange> draw_from_leaders(int first, std::span<const RowLeaders> leaders,
                                                std::span<const RowStatistics> statistics);

  /// Draws from some of these rows, but for those that have been drawn from. logits: float32 [rows,
  /// vocab]; statistics: one a row. Logits are changed while a row is drawn and put back. Throws
  /// std::runtime_error where they are not finite.
  void draw(int first, TensorView logits, std::span<const RowStatistics> statistics);

  /// Appends what draw() found for some of these rows: for each its score, its token or both.
  void append_drawn(IndexRange rows, std::vector<ScoredToken>& out) const;

  /// Takes in what another rank drew for them; returns what is left of its list. Throws
  /// std::runtime_error where the list is too short.
  std::span<const ScoredToken> fill_drawn(IndexRange rows, std::span<const ScoredToken> drawn);

  /// The step's result. Throws std::logic_error unless every row was drawn, filled or taken.
  StepResult take_result();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace
