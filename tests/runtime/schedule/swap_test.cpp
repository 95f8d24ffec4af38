// Preempted sequences that keep what they have computed.
#include "runtime/schedule/swap_space.h"

#include <gtest/gtest.h>

#include "scheduler_runner.h"

namespace headrace {
namespace {

using testing::expected_tokens;
using testing::Runner;
using testing::sequence_of;
using testing::tokens_of;

constexpr int kNumEarly = 40;
constexpr int kNumLate = 20;

SchedulerLimits tight_limits(int num_swap_blocks) {
  SchedulerLimits limits = testing::small_limits();
  limits.num_blocks = 12;
  limits.num_swap_blocks = num_swap_blocks;
  limits.block_tokens = 4;
  return limits;
}

// Sequences that stop early teach the scheduler to expect little; those that then go on to the end
// outgrow the blocks.
template <typename Change>
SchedulerStats run_outgrowing(const SchedulerLimits& limits, const Change& change) {
  Runner runner(limits);
  for (int i = 0; i < kNumEarly; ++i) {
    NewSequence sequence = sequence_of(i, 4, 28);
    sequence.stop_token_ids = {expected_tokens(sequence.tokens, 1)[0]};
    EXPECT_TRUE(runner.scheduler.add(sequence));
  }
  for (int i = kNumEarly; i < kNumEarly + kNumLate; ++i) {
    NewSequence sequence = sequence_of(i, 4, 28);
    change(sequence);
    EXPECT_TRUE(runner.scheduler.add(sequence));
  }
  const auto events = runner.run();
  for (int i = kNumEarly; i < kNumEarly + kNumLate; ++i) {
    EXPECT_EQ(tokens_of(events, i), expected_tokens(sequence_of(i, 4, 0).tokens, 28)) << i;
  }
  const SchedulerStats stats = runner.scheduler.stats();
  EXPECT_TRUE(runner.scheduler.idle());
  EXPECT_GT(stats.num_preemptions, 0);
  EXPECT_EQ(stats.num_free_blocks, limits.num_blocks);
  EXPECT_EQ(stats.num_free_swap_blocks, limits.num_swap_blocks);
  return stats;
}

TEST(Swap, WhatIsSwappedIsNotComputedAgain) {
  const SchedulerStats stats = run_outgrowing(tight_limits(100), [](NewSequence& /*as it is*/) {});
  EXPECT_EQ(stats.num_swapped_sequences, stats.num_preemptions);
  EXPECT_EQ(stats.num_swapped_blocks, 6);
  EXPECT_EQ(stats.num_recomputed_tokens, 0);
}

TEST(Swap, WhatFindsNoRoomIsComputedAgain) {
  // The one that is preempted has six blocks.
  const SchedulerStats stats = run_outgrowing(tight_limits(5), [](NewSequence& /*as it is*/) {});
  EXPECT_EQ(stats.num_swapped_sequences, 0);
  EXPECT_GT(stats.num_recomputed_tokens, 0);
}

TEST(Swap, WhatIsDrawnWithPenaltiesIsComputedAgain) {
  for (const int penalty : {0, 1, 2}) {
    const SchedulerStats stats = run_outgrowing(tight_limits(100), [&](NewSequence& sequence) {
      if (penalty == 0) sequence.params.presence_penalty = 0.5F;
      if (penalty == 1) sequence.params.frequency_penalty = -0.5F;
      if (penalty == 2) sequence.params.repetition_penalty = 1.1F;
    });
    EXPECT_EQ(stats.num_swapped_sequences, 0);
    EXPECT_GT(stats.num_recomputed_tokens, 0);
  }
}

TEST(Swap, AStoppedSequenceGivesItsSwapBlocksBack) {
  const SchedulerLimits limits = tight_limits(100);
  Runner runner(limits);
  for (int i = 0; i < 60; ++i) {
    NewSequence sequence = sequence_of(i, 4, 28);
    if (i < kNumEarly) sequence.stop_token_ids = {expected_tokens(sequence.tokens, 1)[0]};
    ASSERT_TRUE(runner.scheduler.add(sequence));
  }
  while (runner.scheduler.stats().num_swapped_sequences == 0) {
    if (!runner.issue()) runner.complete();
  }
  EXPECT_LT(runner.scheduler.stats().num_free_swap_blocks, 100);
  for (int i = 0; i < 60; ++i) runner.scheduler.stop(i);
  EXPECT_EQ(runner.scheduler.stats().num_free_swap_blocks, 100);
  EXPECT_EQ(runner.scheduler.stats().num_waiting_prompt_tokens, 0);
  runner.run();
  EXPECT_TRUE(runner.scheduler.idle());
}

std::shared_ptr<Sequence> running(const SchedulerLimits& limits, BlockPool& pool, int num_tokens) {
  auto sequence = std::make_shared<Sequence>();
  sequence->blocks.take_for_prefill(limits, pool, num_tokens);
  EXPECT_TRUE(sequence->blocks.cover(limits, {0, num_tokens}, nullptr));
  sequence->num_computed = num_tokens;
  return sequence;
}

TEST(Swap, LessThanAPageIsComputedAgain) {
  const SchedulerLimits limits = tight_limits(10);
  BlockPool pool(limits.num_blocks);
  SwapSpace swap(limits);
  EXPECT_FALSE(swap.save(limits, *running(limits, pool, 3)));
  EXPECT_EQ(swap.num_free(), 10);
  EXPECT_TRUE(swap.save(limits, *running(limits, pool, 4)));
  EXPECT_EQ(swap.num_free(), 9);
}

// One that ends before any plan has taken its saves leaves nothing to be saved: the blocks may be
// another's in that plan.
TEST(Swap, SavesOfASequenceThatEndedAreDropped) {
  const SchedulerLimits limits = tight_limits(10);
  BlockPool pool(limits.num_blocks);
  SwapSpace swap(limits);
  const auto first = running(limits, pool, 9);
  const auto second = running(limits, pool, 8);
  ASSERT_TRUE(swap.save(limits, *first));
  ASSERT_TRUE(swap.save(limits, *second));
  EXPECT_EQ(swap.num_saves(), 5);
  swap.drop(*first);
  EXPECT_EQ(swap.num_free(), 8);
  const std::vector<BlockSwap> saves = swap.take_saves();
  EXPECT_EQ(saves, (std::vector<BlockSwap>{{3, 3}, {4, 4}}));
  EXPECT_EQ(swap.num_saves(), 0);
  swap.drop(*second);
  EXPECT_EQ(swap.num_free(), 10);
}

// Of the layers with a window, what it leaves of the sequence; of the others all of it.
TEST(Swap, KeepsOnlyTheBlocksThatAreStillRead) {
  SchedulerLimits limits = tight_limits(100);
  limits.num_blocks = 64;
  limits.kv = {{{.pages_per_block = 3}, {.positions_read = 6, .pages_per_block = 1}}};
  // At 41: [0, 41) in blocks of 12, [36, 41) in blocks of 4.
  EXPECT_EQ(SequenceBlocks::num_kept(limits, 41), 4 + 2);
  EXPECT_EQ(SequenceBlocks::num_kept(limits, 40), 4 + 2);
  EXPECT_EQ(SequenceBlocks::num_kept(limits, 4), 1 + 1);
  BlockPool pool(limits.num_blocks);
  SequenceBlocks blocks;
  blocks.take_for_return(limits, pool, {.num_computed = 41, .num_tokens = 50});
  EXPECT_EQ(pool.num_free(), 64 - Scheduler::blocks_for(limits, 50));
  std::vector<BlockId> kept;
  blocks.append_kept(limits, 41, kept);
  ASSERT_EQ(kept.size(), 6U);
  ASSERT_TRUE(blocks.cover(limits, {41, 50}, nullptr));
  std::vector<BlockId> sent;
  EXPECT_EQ(blocks.append_unsent(limits, 0, 50, sent), 5);
  EXPECT_EQ(blocks.append_unsent(limits, 1, 50, sent), 13);
  EXPECT_EQ((std::vector<BlockId>(sent.begin(), sent.begin() + 4)),
            (std::vector<BlockId>(kept.begin(), kept.begin() + 4)));
  EXPECT_EQ((std::vector<BlockId>(sent.begin() + 5 + 9, sent.begin() + 5 + 11)),
            (std::vector<BlockId>(kept.begin() + 4, kept.end())));
  blocks.release_all(pool);
  EXPECT_EQ(pool.num_free(), 64);
}

// The first in the queue comes back however full of saves and blocks its plan is.
TEST(Swap, APlanOfTheLeastBytesBringsTheLongestSequenceBack) {
  SchedulerLimits limits = tight_limits(64);
  limits.num_blocks = 64;
  limits.max_rows = 2;
  limits.max_num_seqs = 2;
  limits.max_plan_bytes = Scheduler::min_plan_bytes(limits);
  Runner runner(limits);
  // The one behind has nearly half of the blocks when the one before it needs them.
  for (int i = 0; i < 40; ++i) {
    NewSequence early = sequence_of(i, 4, 100);
    early.stop_token_ids = {expected_tokens(early.tokens, 1)[0]};
    ASSERT_TRUE(runner.scheduler.add(early));
  }
  for (int i = 40; i < 42; ++i) ASSERT_TRUE(runner.scheduler.add(sequence_of(i, 100, 150)));
  const auto events = runner.run();
  for (int i = 40; i < 42; ++i) {
    EXPECT_EQ(tokens_of(events, i), expected_tokens(sequence_of(i, 100, 0).tokens, 150)) << i;
  }
  const SchedulerStats stats = runner.scheduler.stats();
  EXPECT_GT(stats.num_swapped_blocks, 25);
  EXPECT_EQ(stats.num_recomputed_tokens, 0);
  for (const StepPlan& plan : runner.plans) EXPECT_LE(encoded_bytes(plan), limits.max_plan_bytes);
}

}  // namespace
}  // namespace headrace
