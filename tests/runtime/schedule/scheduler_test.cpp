#include "runtime/schedule/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "fake_stage.h"
#include "scheduler_runner.h"
#include "tests/limits.h"

namespace headrace {
namespace {

using testing::expected_tokens;
using testing::FakeStage;
using testing::finish_of;
using testing::kVocab;
using testing::Runner;
using testing::sequence_of;
using testing::small_limits;
using testing::tokens_of;

TEST(Scheduler, RefusesLimitsThatCannotWork) {
  const auto refused = [](auto change) {
    SchedulerLimits limits = small_limits();
    change(limits);
    EXPECT_THROW(Scheduler{limits}, std::invalid_argument);
  };
  refused([](SchedulerLimits& l) { l.num_micro_batches = 0; });
  refused([](SchedulerLimits& l) { l.max_num_seqs = 0; });
  refused([](SchedulerLimits& l) { l.max_rows = 0; });
  refused([](SchedulerLimits& l) { l.efficient_rows = 0; });
  refused([](SchedulerLimits& l) { l.num_blocks = 0; });
  refused([](SchedulerLimits& l) { l.num_swap_blocks = -1; });
  refused([](SchedulerLimits& l) { l.block_tokens = 0; });
  refused([](SchedulerLimits& l) { l.max_model_len = 0; });
  refused([](SchedulerLimits& l) { l.kv.groups.clear(); });
  refused([](SchedulerLimits& l) { l.kv.groups.resize(3); });
  refused([](SchedulerLimits& l) { l.kv.groups[0].pages_per_block = 0; });
  refused([](SchedulerLimits& l) { l.kv.groups[0].positions_read = -1; });
  refused([](SchedulerLimits& l) { l.max_plan_bytes = Scheduler::min_plan_bytes(l) - 1; });
}

TEST(Scheduler, GeneratesWhatTheModelSays) {
  Runner runner(small_limits());
  ASSERT_TRUE(runner.scheduler.add(sequence_of(5, 40, 20)));
  EXPECT_FALSE(runner.scheduler.idle());
  const auto events = runner.run();
  EXPECT_EQ(tokens_of(events, 5), expected_tokens(sequence_of(5, 40, 0).tokens, 20));
  EXPECT_EQ(finish_of(events, 5), FinishReason::kLength);
  EXPECT_TRUE(runner.scheduler.idle());
  EXPECT_EQ(runner.scheduler.stats().num_free_blocks, 64);
}

TEST(Scheduler, RefusesWhatCanNeverFit) {
  SchedulerLimits limits = small_limits();
  limits.num_blocks = 4;  // 64 positions
  Runner runner(limits);
  EXPECT_FALSE(runner.scheduler.add(sequence_of(1, 60, 6)));
  EXPECT_FALSE(runner.scheduler.add(sequence_of(2, 65, 0)));
  EXPECT_TRUE(runner.scheduler.idle());
  // The last token needs no place: 60 + 5 - 1 = 64.
  EXPECT_TRUE(runner.scheduler.add(sequence_of(3, 60, 5)));
  limits.num_blocks = 64;
  Scheduler other(limits);
  EXPECT_FALSE(other.add(sequence_of(1, 200, 57)));
  EXPECT_TRUE(other.add(sequence_of(1, 200, 56)));
  EXPECT_EQ(tokens_of(runner.run(), 3).size(), 5U);
}

TEST(Scheduler, RefusesMalformedSequences) {
  Scheduler scheduler(small_limits());
  EXPECT_THROW((void)scheduler.add(sequence_of(1, 0, 5)), std::invalid_argument);
  NewSequence sequence = sequence_of(1, 4, 5);
  sequence.num_prompt_tokens = 5;
  EXPECT_THROW((void)scheduler.add(sequence), std::invalid_argument);
  sequence = sequence_of(1, 4, 1);
  sequence.num_prompt_tokens = 2;  // two generated, one allowed
  EXPECT_THROW((void)scheduler.add(sequence), std::invalid_argument);
  EXPECT_TRUE(scheduler.add(sequence_of(1, 4, 5)));
  EXPECT_THROW((void)scheduler.add(sequence_of(1, 4, 5)), std::invalid_argument);
}

TEST(Scheduler, StopsAtAStopTokenOnceEnoughAreGenerated) {
  const std::vector<TokenId> tokens = expected_tokens(sequence_of(1, 10, 0).tokens, 30);
  NewSequence sequence = sequence_of(1, 10, 30);
  sequence.stop_token_ids = {tokens[4]};
  Runner runner(small_limits());
  ASSERT_TRUE(runner.scheduler.add(sequence));
  auto events = runner.run();
  EXPECT_EQ(finish_of(events, 1), FinishReason::kStop);
  EXPECT_EQ(tokens_of(events, 1).size(), 5U);  // the stop token is reported
  sequence.params.min_tokens = 6;
  Runner longer(small_limits());
  ASSERT_TRUE(longer.scheduler.add(sequence));
  EXPECT_GT(tokens_of(longer.run(), 1).size(), 5U);
}

TEST(Scheduler, OnlyTheRowThatCompletesThePromptSamples) {
  SchedulerLimits limits = small_limits();
  limits.max_rows = 10;
  limits.efficient_rows = 10;
  Runner runner(limits);
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 25, 3)));
  runner.run();
  int num_rows = 0;
  for (const StepPlan& plan : runner.plans) {
    ASSERT_EQ(plan.entries.size(), 1U);
    EXPECT_LE(plan.num_rows(), 10);
    num_rows += plan.num_rows();
    EXPECT_EQ(plan.entries[0].sample, num_rows >= 25);
  }
  EXPECT_EQ(num_rows, 27);  // the last token is not fed
}

TEST(Scheduler, ChunksOfOnePromptFollowEachOtherInFlight) {
  SchedulerLimits limits = small_limits();
  limits.num_micro_batches = 4;
  limits.max_rows = 16;
  Runner runner(limits);
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 64, 1)));
  for (int chunk = 0; chunk < 4; ++chunk) {
    ASSERT_TRUE(runner.issue());
    EXPECT_EQ(runner.plans.back().entries[0].first_position, chunk * 16);
  }
  EXPECT_FALSE(runner.issue());
  EXPECT_EQ(runner.scheduler.stats().num_in_flight, 4);
  EXPECT_EQ(tokens_of(runner.run(), 1), expected_tokens(sequence_of(1, 64, 0).tokens, 1));
}

TEST(Scheduler, DecodesAreSharedEvenlyByTheMicroBatches) {
  SchedulerLimits limits = small_limits();
  limits.num_micro_batches = 4;
  limits.max_num_seqs = 32;
  limits.num_blocks = 1000;
  Runner runner(limits);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(runner.scheduler.add(sequence_of(i, 5, 100)));
  std::size_t first_even = 0;
  for (int round = 0; round < 200; ++round) {
    while (runner.issue()) {
    }
    runner.complete();
    const auto& entries = runner.plans.back().entries;
    const bool decode_only =
        std::all_of(entries.begin(), entries.end(), [](auto& e) { return e.first_position >= 5; });
    if (decode_only && first_even == 0) first_even = runner.plans.size() + 8;
    if (first_even != 0 && runner.plans.size() > first_even) {
      EXPECT_GE(entries.size(), 6U) << round;  // 30 over 4: 8, 8, 8, 6
      EXPECT_LE(entries.size(), 8U) << round;
    }
  }
  EXPECT_GT(first_even, 0U);
}

TEST(Scheduler, AdmitsByPriorityThenInOrder) {
  SchedulerLimits limits = small_limits();
  limits.max_num_seqs = 1;
  Runner runner(limits);
  for (const auto& [id, priority] : {std::pair{1, 5}, {2, 0}, {3, 0}, {4, -1}}) {
    NewSequence sequence = sequence_of(id, 4, 2);
    sequence.priority = priority;
    ASSERT_TRUE(runner.scheduler.add(sequence));
  }
  std::vector<SequenceId> ended;
  for (const SequenceEvent& event : runner.run()) {
    if (event.finish != FinishReason::kNone) ended.push_back(event.id);
  }
  EXPECT_EQ(ended, (std::vector<SequenceId>{4, 2, 3, 1}));
}

TEST(Scheduler, StoppedSequenceGivesNoMoreEvents) {
  Runner runner(small_limits());
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 4, 50)));
  ASSERT_TRUE(runner.scheduler.add(sequence_of(2, 4, 50)));
  ASSERT_TRUE(runner.issue());
  runner.scheduler.stop(1);
  runner.scheduler.stop(1);
  runner.scheduler.stop(77);
  const auto events = runner.run();
  EXPECT_TRUE(tokens_of(events, 1).empty());
  EXPECT_EQ(tokens_of(events, 2), expected_tokens(sequence_of(2, 4, 0).tokens, 50));
  EXPECT_TRUE(runner.scheduler.idle());
}

TEST(Scheduler, AnIdMayBeUsedAgainWhileItsOldRowsAreInFlight) {
  Runner runner(small_limits());
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 4, 50)));
  ASSERT_TRUE(runner.issue());
  runner.scheduler.stop(1);
  EXPECT_FALSE(runner.scheduler.idle());  // a step is in flight
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 9, 3)));
  EXPECT_EQ(tokens_of(runner.run(), 1), expected_tokens(sequence_of(1, 9, 0).tokens, 3));
}

TEST(Scheduler, AReleaseNeedsNoStepOfItsOwn) {
  Runner runner(small_limits());
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 4, 1)));
  runner.run();
  EXPECT_EQ(runner.plans.size(), 1U);
  EXPECT_EQ(runner.scheduler.stats().num_free_blocks, 64);
  ASSERT_TRUE(runner.scheduler.add(sequence_of(2, 4, 1)));
  runner.run();
  ASSERT_EQ(runner.plans.size(), 2U);
  EXPECT_EQ(runner.plans[1].released, std::vector<Slot>{0});
  EXPECT_EQ(runner.plans[1].admitted[0].slot, 0);
}

TEST(Scheduler, ScoresThePromptAndSamplesNothing) {
  SchedulerLimits limits = small_limits();
  limits.max_rows = 8;
  limits.efficient_rows = 8;
  Runner runner(limits);
  NewSequence sequence = sequence_of(1, 21, 0);
  sequence.params.num_prompt_logprobs = 0;
  ASSERT_TRUE(runner.scheduler.add(sequence));
  const auto events = runner.run();
  EXPECT_EQ(finish_of(events, 1), FinishReason::kLength);
  EXPECT_TRUE(tokens_of(events, 1).empty());
  std::size_t position = 1;
  for (const SequenceEvent& event : events) {
    for (const ScoredToken& scored : event.prompt_scores) {
      EXPECT_EQ(scored.token, sequence.tokens[position]);
      EXPECT_EQ(scored.logprob,
                testing::score_of(testing::hash_of(std::span(sequence.tokens).first(position)),
                                  scored.token));
      ++position;
    }
  }
  EXPECT_EQ(position, 21U);
}

TEST(Scheduler, AFullyGeneratedSequenceEndsWithItsPrefill) {
  NewSequence sequence = sequence_of(1, 12, 4);
  sequence.num_prompt_tokens = 8;  // four were generated earlier, four are allowed
  Runner runner(small_limits());
  ASSERT_TRUE(runner.scheduler.add(sequence));
  const auto events = runner.run();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].finish, FinishReason::kLength);
  EXPECT_FALSE(events[0].has_token);
}

TEST(Scheduler, ResumedSequenceGoesOnAndScoresItsPromptOnly) {
  NewSequence sequence = sequence_of(1, 20, 10);
  const std::vector<TokenId> tokens = expected_tokens(sequence.tokens, 10);
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.begin() + 6);
  sequence.params.num_prompt_logprobs = 2;
  Runner runner(small_limits());
  ASSERT_TRUE(runner.scheduler.add(sequence));
  const auto events = runner.run();
  EXPECT_EQ(tokens_of(events, 1), std::vector<TokenId>(tokens.begin() + 6, tokens.end()));
  std::size_t num_scores = 0;
  for (const SequenceEvent& event : events) num_scores += event.prompt_scores.size();
  EXPECT_EQ(num_scores, 19U);
  for (const StepPlan& plan : runner.plans) {
    for (const StepEntry& entry : plan.entries) {
      EXPECT_TRUE(!entry.score || entry.first_position + entry.num_rows <= 19);
    }
  }
}

TEST(Scheduler, PreemptionChangesNoToken) {
  SchedulerLimits limits = small_limits();
  limits.num_blocks = 12;
  limits.block_tokens = 4;
  Runner runner(limits);
  // Sequences that stop early teach the scheduler to expect little; those that then go on to the
  // end outgrow the blocks.
  for (int i = 0; i < 40; ++i) {
    NewSequence sequence = sequence_of(i, 4, 28);
    sequence.stop_token_ids = {expected_tokens(sequence.tokens, 1)[0]};
    ASSERT_TRUE(runner.scheduler.add(sequence));
  }
  for (int i = 40; i < 60; ++i) ASSERT_TRUE(runner.scheduler.add(sequence_of(i, 4, 28)));
  const auto events = runner.run();
  for (int i = 40; i < 60; ++i) {
    EXPECT_EQ(tokens_of(events, i), expected_tokens(sequence_of(i, 4, 0).tokens, 28)) << i;
  }
  const SchedulerStats stats = runner.scheduler.stats();
  EXPECT_GT(stats.num_preemptions, 0);
  EXPECT_GT(stats.num_recomputed_tokens, 0);
  EXPECT_EQ(stats.num_free_blocks, 12);
  EXPECT_TRUE(runner.scheduler.idle());
}

// A preempted sequence whose last row is still in flight gets room at once: it must wait for the
// row.
// Blocks behind the window are used again: two sequences of 700 positions in room for 160.
TEST(Scheduler, AWindowLetsSequencesOutgrowTheCache) {
  SchedulerLimits limits = small_limits();
  limits.max_model_len = 1000;
  limits.max_rows = 20;
  limits.num_blocks = 10;
  Runner without(limits);
  EXPECT_FALSE(without.scheduler.add(sequence_of(1, 300, 400)));
  limits.kv = {{{.positions_read = 37}}};
  Runner runner(limits);
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 300, 400)));
  ASSERT_TRUE(runner.scheduler.add(sequence_of(2, 5, 600)));
  const std::vector<SequenceEvent> events = runner.run();
  EXPECT_EQ(runner.scheduler.stats().num_free_blocks, limits.num_blocks);
  for (const NewSequence& given : {sequence_of(1, 300, 400), sequence_of(2, 5, 600)}) {
    std::vector<TokenId> all = given.tokens;
    for (const TokenId token : tokens_of(events, given.id)) {
      ASSERT_EQ(token, testing::next_token(testing::hash_of(all, limits.kv), kVocab));
      all.push_back(token);
    }
    EXPECT_EQ(static_cast<int>(all.size()), given.num_prompt_tokens + given.max_tokens);
  }
}

// As many blocks as hold 384 positions of a model with one group: of two groups, one with a window,
// they hold two sequences of 700. A block of the group that sees everything has three pages.
SchedulerLimits mixed_limits() {
  SchedulerLimits limits = small_limits();
  limits.max_model_len = 1000;
  limits.max_rows = 20;
  limits.num_blocks = 24;
  limits.kv = {{{.pages_per_block = 3}, {.positions_read = 37}}};
  return limits;
}

void expect_expected(const std::vector<SequenceEvent>& events, const NewSequence& given,
                     const KvGroups& kv) {
  std::vector<TokenId> all = given.tokens;
  for (const TokenId token : tokens_of(events, given.id)) {
    ASSERT_EQ(token, testing::next_token(testing::hash_of(all, kv), kVocab));
    all.push_back(token);
  }
  EXPECT_EQ(static_cast<int>(all.size()), given.num_prompt_tokens + given.max_tokens);
}

TEST(Scheduler, AGroupWithAWindowLeavesItsBlocksToOneThatSeesEverything) {
  const SchedulerLimits limits = mixed_limits();
  SchedulerLimits one_group = limits;
  one_group.kv = {};
  EXPECT_FALSE(Scheduler(one_group).add(sequence_of(1, 300, 400)));
  EXPECT_EQ(Scheduler::blocks_for(limits, 700), 15 + 5);
  Runner runner(limits);
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 300, 400)));
  ASSERT_TRUE(runner.scheduler.add(sequence_of(2, 5, 600)));
  const std::vector<SequenceEvent> events = runner.run();
  EXPECT_EQ(runner.scheduler.stats().num_free_blocks, limits.num_blocks);
  expect_expected(events, sequence_of(1, 300, 400), limits.kv);
  expect_expected(events, sequence_of(2, 5, 600), limits.kv);
}

// Every group counts: two sequences of 1,000 are too many, one of 1,001 is too long.
TEST(Scheduler, GroupsShareOnePoolAndRefuseWhatNeverFits) {
  SchedulerLimits limits = mixed_limits();
  limits.max_model_len = 5000;
  ASSERT_EQ(Scheduler::blocks_for(limits, 48 * 19), 24);
  Scheduler scheduler(limits);
  EXPECT_TRUE(scheduler.add(sequence_of(1, 48 * 19, 0)));
  EXPECT_FALSE(scheduler.add(sequence_of(2, 48 * 19 + 1, 0)));
}

// A prefill holds the window of a whole step's rows, a decode only its own and a block for what
// comes next.
TEST(Scheduler, APrefillGivesBackWhatDecodingDoesNotNeed) {
  SchedulerLimits limits = mixed_limits();
  limits.max_rows = 200;
  limits.num_blocks = 30;
  Runner runner(limits);
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 400, 10)));
  ASSERT_TRUE(runner.issue());
  const int during = 9 + 16;  // 400 / 48, (36 + 200) / 16 + 1
  EXPECT_EQ(runner.scheduler.stats().num_free_blocks, limits.num_blocks - during);
  int least = limits.num_blocks;  // free while it decodes
  while (!runner.scheduler.idle()) {
    if (!runner.issue()) runner.complete();
    if (runner.plans.back().num_rows() > 1) continue;
    least = std::min(least, runner.scheduler.stats().num_free_blocks);
  }
  EXPECT_EQ(least, limits.num_blocks - (9 + 5));
  EXPECT_EQ(runner.scheduler.stats().num_free_blocks, limits.num_blocks);
}

TEST(Scheduler, APreemptedSequenceWaitsForItsRowsInFlight) {
  int num_waits = 0;
  for (int num_micro_batches = 2; num_micro_batches <= 6; ++num_micro_batches) {
    SchedulerLimits limits = small_limits();
    limits.num_micro_batches = num_micro_batches;
    limits.num_blocks = 12;
    limits.block_tokens = 4;
    Runner runner(limits);
    for (int i = 0; i < 60; ++i) {
      NewSequence sequence = sequence_of(i, 4, 28);
      if (i < 40) sequence.stop_token_ids = {expected_tokens(sequence.tokens, 1)[0]};
      ASSERT_TRUE(runner.scheduler.add(sequence));
    }
    std::vector<SequenceEvent> events;
    SequenceId victim = -1;  // the last that has begun
    while (runner.scheduler.stats().num_preemptions == 0) {
      while (runner.scheduler.stats().num_preemptions == 0 && runner.issue()) {
      }
      if (runner.scheduler.stats().num_preemptions > 0) break;
      for (SequenceEvent& event : runner.complete()) {
        victim = std::max(victim, event.id);
        events.push_back(std::move(event));
      }
    }
    for (int i = 0; i < 60; ++i) {
      if (i != victim) runner.scheduler.stop(i);
    }
    if (!runner.issue() && !runner.results.empty()) ++num_waits;
    for (SequenceEvent& event : runner.run()) events.push_back(std::move(event));
    EXPECT_EQ(tokens_of(events, victim), expected_tokens(sequence_of(victim, 4, 0).tokens, 28));
  }
  EXPECT_GT(num_waits, 0);
}

TEST(Scheduler, PlansStayWithinTheirBytes) {
  SchedulerLimits limits = small_limits();
  limits.max_num_seqs = 64;
  limits.num_blocks = 1000;
  limits.max_rows = 256;
  limits.efficient_rows = 256;
  limits.max_plan_bytes = Scheduler::min_plan_bytes(limits);
  Runner runner(limits);
  for (int i = 0; i < 100; ++i) {
    NewSequence sequence = sequence_of(i, 3, 3);
    for (int id = 0; id < kMaxLogitBias / 2; ++id)
      sequence.params.logit_bias.emplace_back(id, 1.0F);
    ASSERT_TRUE(runner.scheduler.add(sequence));
  }
  runner.run();
  std::size_t most_admitted = 0;
  for (const StepPlan& plan : runner.plans) {
    EXPECT_LE(encoded_bytes(plan), limits.max_plan_bytes);
    most_admitted = std::max(most_admitted, plan.admitted.size());
  }
  EXPECT_GT(most_admitted, 1U);
  EXPECT_LT(most_admitted, 10U);
  EXPECT_TRUE(runner.scheduler.idle());
}

TEST(Scheduler, RefusesResultsThatAreNotTheOldestStep) {
  Runner runner(small_limits());
  StepResult result;
  EXPECT_THROW(runner.scheduler.complete(result), std::logic_error);
  ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 4, 5)));
  ASSERT_TRUE(runner.issue());
  result.id = 1;
  EXPECT_THROW(runner.scheduler.complete(result), std::logic_error);
}

TEST(Scheduler, RefusesResultsThatDoNotMatchTheirPlan) {
  const auto refused = [](auto change) {
    Runner runner(small_limits());
    ASSERT_TRUE(runner.scheduler.add(sequence_of(1, 4, 5)));
    ASSERT_TRUE(runner.issue());
    change(runner.results.front());
    EXPECT_THROW(runner.complete(), std::logic_error);
  };
  refused([](StepResult& r) { r.entries.clear(); });
  refused([](StepResult& r) { r.entries.push_back(r.entries[0]); });
  refused([](StepResult& r) { r.entries[0].slot = 1; });
  refused([](StepResult& r) { r.entries[0].sampled = false; });
  refused([](StepResult& r) { r.entries[0].scored.resize(1); });
}

TEST(Scheduler, StaysFastWithALongQueue) {
  SchedulerLimits limits = small_limits();
  limits.max_num_seqs = 256;
  limits.max_rows = 512;
  limits.num_blocks = 10000;
  limits.max_model_len = 4096;
  Scheduler scheduler(limits);
  for (int i = 0; i < 100000; ++i) ASSERT_TRUE(scheduler.add(sequence_of(i, 16, 128)));
  const auto answer = [](const StepPlan& plan) {
    StepResult result;
    result.id = plan.id;
    for (const StepEntry& entry : plan.entries) {
      if (!entry.sample) continue;
      result.entries.push_back({entry.slot, entry.first_position, {}, true, {7, 0, 0, {}}});
    }
    return result;
  };
  constexpr int kSteps = 4000;
  std::deque<StepPlan> in_flight;
  std::chrono::nanoseconds inside{0};
  for (int step = 0; step < kSteps; ++step) {
    while (true) {
      const auto begin = std::chrono::steady_clock::now();
      std::optional<StepPlan> plan = scheduler.next();
      inside += std::chrono::steady_clock::now() - begin;
      if (!plan) break;
      in_flight.push_back(std::move(*plan));
    }
    const StepResult result = answer(in_flight.front());
    in_flight.pop_front();
    const auto begin = std::chrono::steady_clock::now();
    scheduler.complete(result);
    inside += std::chrono::steady_clock::now() - begin;
  }
  const double us = std::chrono::duration<double, std::micro>(inside).count() / kSteps;
  RecordProperty("us_per_step", std::to_string(us));
  // Generous, since other work shares the machine; anything that walks the queue takes
  // milliseconds.
  EXPECT_LT(us, time_limit(500.0));
}

}  // namespace
}  // namespace headrace
