// A pipeline with a virtual clock: drives a scheduler's next() and complete() as the head does,
// with stages whose time is linear in rows, and the LM head on the last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/schedule/scheduler.h"

namespace headrace::testing {

/// Seconds do not matter, ratios do: one row through one layer costs 1.
struct PipelineCost {
  std::vector<double> layers;  // of each stage; fractions are fine
  double head = 8.0;           // LM head and sampling of one row, on the last stage
  double min_rows = 24.0;      // fewer rows cost as much: reading the weights dominates
  double step_overhead = 2.0;  // of a stage and step
};

struct SimulatedStep {
  int num_prefill_rows = 0;
  int num_decode_rows = 0;
  int num_waiting = 0;  // sequences, when the step was made
  double issued = 0;
  std::vector<double> begin;  // by stage
  std::vector<double> end;
};

struct Simulation {
  std::vector<SimulatedStep> steps;
  std::vector<double> first_token;  // by sequence id: when it came back
  std::vector<double> finished;     // by sequence id
  double makespan = 0;

  /// Share of [from, to) that an average stage computes.
  double utilisation(double from, double to) const {
    double busy = 0;
    for (const SimulatedStep& step : steps) {
      for (std::size_t s = 0; s < step.begin.size(); ++s) {
        busy += std::max(0.0, std::min(to, step.end[s]) - std::max(from, step.begin[s]));
      }
    }
    return busy / ((to - from) * static_cast<double>(steps.front().begin.size()));
  }
};

inline double stage_time(const PipelineCost& cost, std::size_t stage, const StepPlan& plan) {
  const double rows = std::max(cost.min_rows, static_cast<double>(plan.num_rows()));
  double time = cost.step_overhead + rows * cost.layers[stage];
  if (stage + 1 < cost.layers.size()) return time;
  const auto num_sampled =
      std::count_if(plan.entries.begin(), plan.entries.end(), [](auto& e) { return e.sample; });
  return time + cost.head * static_cast<double>(num_sampled);
}

/// Runs until the scheduler is idle. Scheduler_ has next, complete, idle and stats. Sequence ids
/// are 0 .. num_sequences - 1.
template <typename Scheduler_>
Simulation simulate(Scheduler_& scheduler, const PipelineCost& cost, int num_sequences) {
  Simulation out;
  out.first_token.resize(static_cast<std::size_t>(num_sequences), -1);
  out.finished.resize(static_cast<std::size_t>(num_sequences), -1);
  std::deque<StepPlan> in_flight;
  std::size_t num_completed = 0;
  std::vector<double> stage_free(cost.layers.size(), 0.0);
  double now = 0;
  while (true) {
    while (std::optional<StepPlan> plan = scheduler.next()) {
      SimulatedStep step;
      step.issued = now;
      step.num_waiting = scheduler.stats().num_waiting;
      for (const StepEntry& entry : plan->entries) {
        const bool decode = entry.num_rows == 1 && entry.sample;
        (decode ? step.num_decode_rows : step.num_prefill_rows) += entry.num_rows;
      }
      double arrived = now;
      for (std::size_t s = 0; s < cost.layers.size(); ++s) {
        step.begin.push_back(std::max(arrived, stage_free[s]));
        step.end.push_back(step.begin.back() + stage_time(cost, s, *plan));
        arrived = stage_free[s] = step.end.back();
      }
      out.steps.push_back(std::move(step));
      in_flight.push_back(std::move(*plan));
    }
    if (in_flight.empty()) break;
    now = out.steps[num_completed++].end.back();
    StepResult result;
    result.id = in_flight.front().id;
    for (const StepEntry& entry : in_flight.front().entries) {
      if (entry.sample)
        result.entries.push_back({entry.slot, entry.first_position, {}, true, {1, 0, 0, {}}});
    }
    in_flight.pop_front();
    for (const SequenceEvent& event : scheduler.complete(result)) {
      const auto id = static_cast<std::size_t>(event.id);
      if (out.first_token[id] < 0) out.first_token[id] = now;
      if (event.finish != FinishReason::kNone) out.finished[id] = now;
    }
  }
  out.makespan = now;
  return out;
}

/// What Headrace does not do: each step takes every ready decode, then fills up with prompts.
class GreedyScheduler {
 public:
  GreedyScheduler(int num_micro_batches, int max_num_seqs, int max_rows)
      : num_micro_batches_(num_micro_batches), max_num_seqs_(max_num_seqs), max_rows_(max_rows) {}

  void add(int num_prompt, int max_tokens) { sequences_.push_back({num_prompt, max_tokens, 0, 0}); }

  std::optional<StepPlan> next() {
    if (static_cast<int>(in_flight_.size()) >= num_micro_batches_) return std::nullopt;
    StepPlan plan;
    plan.id = next_step_;
    while (!ready_.empty() && plan.num_rows() < max_rows_) {
      push(plan, ready_.front(), 1, true);
      ready_.pop_front();
    }
    while (plan.num_rows() < max_rows_ && first_waiting_ < sequences_.size()) {
      Seq& seq = sequences_[first_waiting_];
      if (seq.num_computed == 0 && num_running_ == max_num_seqs_) break;
      num_running_ += seq.num_computed == 0 ? 1 : 0;
      const int rows = std::min(max_rows_ - plan.num_rows(), seq.num_prompt - seq.num_computed);
      seq.num_computed += rows;
      const bool complete = seq.num_computed == seq.num_prompt;
      push(plan, first_waiting_, rows, complete);
      first_waiting_ += complete ? 1 : 0;
    }
    if (plan.entries.empty()) return std::nullopt;
    in_flight_.push_back(plan);
    ++next_step_;
    return plan;
  }

  std::vector<SequenceEvent> complete(const StepResult&) {
    std::vector<SequenceEvent> events;
    for (const StepEntry& entry : in_flight_.front().entries) {
      if (!entry.sample) continue;
      const auto id = static_cast<std::size_t>(entry.slot);
      SequenceEvent event;
      event.id = entry.slot;
      event.has_token = true;
      if (++sequences_[id].num_generated < sequences_[id].max_tokens) {
        ready_.push_back(id);
      } else {
        event.finish = FinishReason::kLength;
        --num_running_;
      }
      events.push_back(event);
    }
    in_flight_.pop_front();
    return events;
  }

  SchedulerStats stats() const {
    SchedulerStats stats;
    stats.num_waiting = static_cast<int>(sequences_.size() - first_waiting_);
    return stats;
  }

 private:
  struct Seq {
    int num_prompt, max_tokens, num_computed, num_generated;
  };
  static void push(StepPlan& plan, std::size_t id, int rows, bool sample) {
    StepEntry entry;
    entry.slot = static_cast<Slot>(id);
    entry.num_rows = rows;
    entry.sample = sample;
    plan.entries.push_back(entry);
    plan.tokens.resize(plan.tokens.size() + static_cast<std::size_t>(rows));
  }

  int num_micro_batches_, max_num_seqs_, max_rows_;
  std::vector<Seq> sequences_;
  std::size_t first_waiting_ = 0;
  int num_running_ = 0;
  std::deque<std::size_t> ready_;
  std::deque<StepPlan> in_flight_;
  StepId next_step_ = 0;
};

}  // namespace headrace::testing
