// Drives a scheduler against the fake model, and says what has to come out.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "fake_stage.h"
#include "runtime/schedule/scheduler.h"

namespace headrace::testing {

inline constexpr int kVocab = 1000;

inline SchedulerLimits small_limits() {
  SchedulerLimits limits;
  limits.num_micro_batches = 2;
  limits.max_num_seqs = 8;
  limits.max_rows = 64;
  limits.num_blocks = 64;
  limits.block_tokens = 16;
  limits.max_model_len = 256;
  return limits;
}

inline NewSequence sequence_of(SequenceId id, int num_prompt, int max_tokens) {
  NewSequence sequence;
  sequence.id = id;
  for (int i = 0; i < num_prompt; ++i) {
    sequence.tokens.push_back(static_cast<TokenId>((id * 31 + i * 7) % kVocab));
  }
  sequence.num_prompt_tokens = num_prompt;
  sequence.max_tokens = max_tokens;
  return sequence;
}

/// Runs a scheduler with the fake stage, steps completing as late as allowed.
struct Runner {
  explicit Runner(const SchedulerLimits& limits) : scheduler(limits), stage(limits, kVocab) {}

  /// One more step, or nothing where none can be had.
  bool issue() {
    std::optional<StepPlan> plan = scheduler.next();
    if (!plan) return false;
    results.push_back(stage.execute(*plan));
    plans.push_back(std::move(*plan));
    return true;
  }
  std::vector<SequenceEvent> complete() {
    std::vector<SequenceEvent> events = scheduler.complete(results.front());
    results.pop_front();
    return events;
  }
  /// Until nothing is left; all events.
  std::vector<SequenceEvent> run() {
    std::vector<SequenceEvent> all;
    while (true) {
      while (issue()) {
      }
      if (results.empty()) return all;
      for (SequenceEvent& event : complete()) all.push_back(std::move(event));
    }
  }

  Scheduler scheduler;
  FakeStage stage;
  std::vector<StepPlan> plans;
  std::deque<StepResult> results;
};

inline std::vector<TokenId> tokens_of(const std::vector<SequenceEvent>& events, SequenceId id) {
  std::vector<TokenId> tokens;
  for (const SequenceEvent& event : events) {
    if (event.id == id && event.has_token) tokens.push_back(event.token.token);
  }
  return tokens;
}

inline FinishReason finish_of(const std::vector<SequenceEvent>& events, SequenceId id) {
  FinishReason reason = FinishReason::kNone;
  for (const SequenceEvent& event : events) {
    if (event.id == id && event.finish != FinishReason::kNone) {
      EXPECT_EQ(reason, FinishReason::kNone) << "ended twice";
      reason = event.finish;
    }
  }
  return reason;
}

inline std::vector<TokenId> expected_tokens(std::vector<TokenId> tokens, int count) {
  std::vector<TokenId> generated;
  for (int i = 0; i < count; ++i) {
    generated.push_back(next_token(hash_of(tokens), kVocab));
    tokens.push_back(generated.back());
  }
  return generated;
}

}  // namespace headrace::testing
