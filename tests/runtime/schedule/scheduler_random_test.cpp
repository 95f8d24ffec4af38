// Random sequences, limits, stops and delays against the fake model: tokens and scores depend on
// none of it, and every block comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "fake_stage.h"
#include "runtime/schedule/scheduler.h"

namespace headrace {
namespace {

using testing::FakeStage;

constexpr int kVocab = 50;

struct Expected {
  NewSequence given;
  std::vector<TokenId> tokens;  // generated after the given ones
  FinishReason finish = FinishReason::kLength;
};

struct Received {
  std::vector<TokenId> tokens;
  std::vector<ScoredToken> scores;
  FinishReason finish = FinishReason::kNone;
  bool stopped = false;
};

int between(std::mt19937& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint32_t>(high - low + 1));
}

// One group that sees everything, one with a window, or both, of blocks of different lengths.
KvGroups random_groups(std::mt19937& random) {
  const int kind = between(random, 0, 3);
  if (kind < 2) return {};
  const KvGroup windowed{.positions_read = between(random, 1, 30),
                         .pages_per_block = between(random, 1, 3)};
  if (kind == 2) return {{windowed}};
  return {{{.pages_per_block = between(random, 1, 5)}, windowed}};
}

SchedulerLimits random_limits(std::mt19937& random, int num_swap_blocks) {
  SchedulerLimits limits;
  limits.num_micro_batches = between(random, 1, 5);
  limits.max_num_seqs = between(random, 1, 12);
  limits.max_rows = between(random, 1, 40);
  limits.efficient_rows = between(random, 1, 40);
  limits.block_tokens = between(random, 1, 8);
  limits.num_blocks = between(random, 3, 40);
  limits.max_model_len = between(random, 4, 100);
  limits.kv = random_groups(random);
  limits.num_swap_blocks = num_swap_blocks;
  if (random() % 2 == 0) limits.max_plan_bytes = Scheduler::min_plan_bytes(limits);
  return limits;
}

// max_stop_ids: how many tokens of the vocabulary may end it; many make it short.
Expected random_sequence(std::mt19937& random, SequenceId id, int max_stop_ids,
                         const KvGroups& kv) {
  Expected expected;
  NewSequence& given = expected.given;
  given.id = id;
  given.priority = between(random, 0, 2) / 2;
  given.num_prompt_tokens = between(random, 1, 30);
  for (int i = 0; i < given.num_prompt_tokens; ++i) {
    given.tokens.push_back(between(random, 0, kVocab - 1));
  }
  given.max_tokens = between(random, 0, 30);
  for (int i = between(random, 0, max_stop_ids); i > 0; --i) {
    given.stop_token_ids.push_back(between(random, 0, kVocab - 1));
  }
  std::sort(given.stop_token_ids.begin(), given.stop_token_ids.end());
  given.params.min_tokens = between(random, 0, 4);
  given.params.num_prompt_logprobs = between(random, -1, 0);
  if (id % 8 == 0) given.params.presence_penalty = 0.5F;  // the fake model has none

  std::vector<TokenId> tokens = given.tokens;
  std::vector<TokenId> generated;
  while (static_cast<int>(generated.size()) < given.max_tokens) {
    generated.push_back(testing::next_token(testing::hash_of(tokens, kv), kVocab));
    tokens.push_back(generated.back());
    const bool stop = std::binary_search(given.stop_token_ids.begin(), given.stop_token_ids.end(),
                                         generated.back());
    if (!stop || static_cast<int>(generated.size()) < given.params.min_tokens) continue;
    expected.finish = FinishReason::kStop;
    break;
  }
  // Some come from an earlier run, with all their tokens but at least the one that ended them.
  std::size_t num_saved = 0;
  if (random() % 3 == 0 && !generated.empty()) {
    num_saved = random() % generated.size();
  }
  given.tokens.insert(given.tokens.end(), generated.begin(),
                      generated.begin() + static_cast<std::ptrdiff_t>(num_saved));
  expected.tokens.assign(generated.begin() + static_cast<std::ptrdiff_t>(num_saved),
                         generated.end());
  return expected;
}

void check_scores(const Expected& expected, const Received& received, const KvGroups& kv) {
  const NewSequence& given = expected.given;
  if (given.params.num_prompt_logprobs < 0) {
    EXPECT_TRUE(received.scores.empty());
    return;
  }
  if (!received.stopped) {
    EXPECT_EQ(static_cast<int>(received.scores.size()), given.num_prompt_tokens - 1);
  }
  for (std::size_t i = 0; i < received.scores.size(); ++i) {
    const std::uint64_t prefix = testing::hash_of(std::span(given.tokens).first(i + 1), kv);
    ASSERT_EQ(received.scores[i].token, given.tokens[i + 1]);
    ASSERT_EQ(received.scores[i].logprob, testing::score_of(prefix, given.tokens[i + 1]));
  }
}

void check_answer(const Expected& expected, const Received& received, const KvGroups& kv) {
  check_scores(expected, received, kv);
  if (!received.stopped) {
    EXPECT_EQ(received.tokens, expected.tokens);
    EXPECT_EQ(received.finish, expected.finish);
    return;
  }
  ASSERT_LE(received.tokens.size(), expected.tokens.size());
  EXPECT_TRUE(std::equal(received.tokens.begin(), received.tokens.end(), expected.tokens.begin()));
}

// A step's saves are taken before its restores give swap blocks back.
void check_swaps(const StepPlan& plan) {
  for (const BlockSwap& restore : plan.restores) {
    EXPECT_NE(std::ranges::find(plan.new_blocks, restore.block), plan.new_blocks.end());
  }
  EXPECT_TRUE(plan.restores.empty() || !plan.admitted.empty());
}

// What a plan promises by itself.
void check_plan(const StepPlan& plan, const SchedulerLimits& limits) {
  EXPECT_GE(plan.num_rows(), 1);
  EXPECT_LE(plan.num_rows(), limits.max_rows);
  if (limits.max_plan_bytes > 0) {
    EXPECT_LE(encoded_bytes(plan), limits.max_plan_bytes);
  }
  std::vector<std::byte> bytes;
  encode(plan, bytes);
  EXPECT_NO_THROW(decode_step_plan(bytes));
  std::vector<Slot> slots;
  for (const StepEntry& entry : plan.entries) slots.push_back(entry.slot);
  std::sort(slots.begin(), slots.end());
  EXPECT_EQ(std::adjacent_find(slots.begin(), slots.end()), slots.end());
  check_swaps(plan);
}

// Sums over cases.
struct Counts {
  std::int64_t preemptions = 0;
  std::int64_t recomputed_tokens = 0;
  std::int64_t swapped_sequences = 0;
  std::int64_t swapped_blocks = 0;
  std::int64_t restored_blocks = 0;
};

// Returns a hash of every plan made, and adds to the counts.
std::uint64_t run_case(std::uint32_t seed, int num_swap_blocks, Counts& counts) {
  std::mt19937 random(seed);
  const SchedulerLimits limits = random_limits(random, num_swap_blocks);
  Scheduler scheduler(limits);
  FakeStage stage(limits, kVocab);
  std::map<SequenceId, Expected> expected;
  std::map<SequenceId, Received> received;
  std::deque<StepResult> in_flight;
  std::uint64_t hash = 0;
  const int num_sequences = seed % 10 == 0 ? 150 : between(random, 1, 40);
  int num_left = num_sequences;
  int num_idle_turns = 0;
  while (num_left > 0 || !scheduler.idle()) {
    const std::uint32_t choice = random() % 8;
    if (choice == 0 && num_left > 0) {
      // Short ones first teach the scheduler to expect little, so that later ones outgrow the
      // blocks.
      const bool is_early = num_left > num_sequences / 2;
      Expected next =
          random_sequence(random, num_left, seed % 2 == 0 && is_early ? 40 : 1, limits.kv);
      if (scheduler.add(next.given)) expected[num_left] = std::move(next);
      --num_left;
    } else if (choice == 1 && random() % 8 == 0 && !expected.empty()) {
      const SequenceId id = between(random, 1, num_sequences);
      if (expected.count(id) != 0 && received[id].finish == FinishReason::kNone) {
        scheduler.stop(id);
        received[id].stopped = true;
      }
    } else if (choice < 5) {
      if (std::optional<StepPlan> plan = scheduler.next()) {
        check_plan(*plan, limits);
        counts.restored_blocks += std::ssize(plan->restores);
        std::vector<std::byte> bytes;
        encode(*plan, bytes);
        for (const std::byte byte : bytes)
          hash = testing::mix(hash, std::to_integer<unsigned>(byte));
        in_flight.push_back(stage.execute(*plan));
        num_idle_turns = 0;
      } else if (in_flight.empty() &&
                 scheduler.stats().num_waiting + scheduler.stats().num_running > 0) {
        ADD_FAILURE() << "stuck with work to do, seed " << seed;
        return 0;
      }
    } else if (!in_flight.empty()) {
      for (SequenceEvent& event : scheduler.complete(in_flight.front())) {
        Received& answer = received[event.id];
        EXPECT_FALSE(answer.stopped) << "an event after stop";
        EXPECT_EQ(answer.finish, FinishReason::kNone) << "an event after the end";
        answer.scores.insert(answer.scores.end(), event.prompt_scores.begin(),
                             event.prompt_scores.end());
        if (event.has_token) answer.tokens.push_back(event.token.token);
        answer.finish = event.finish;
      }
      in_flight.pop_front();
    }
    if (++num_idle_turns > 10000) {
      ADD_FAILURE() << "no progress, seed " << seed;
      return 0;
    }
  }
  for (const auto& [id, answer] : expected) check_answer(answer, received[id], limits.kv);
  const SchedulerStats stats = scheduler.stats();
  EXPECT_EQ(stats.num_free_blocks, limits.num_blocks);
  EXPECT_EQ(stats.num_free_swap_blocks, limits.num_swap_blocks);
  EXPECT_EQ(stats.num_running, 0);
  EXPECT_EQ(stats.num_waiting, 0);
  EXPECT_EQ(stats.num_waiting_prompt_tokens, 0);
  counts.preemptions += stats.num_preemptions;
  counts.recomputed_tokens += stats.num_recomputed_tokens;
  counts.swapped_sequences += stats.num_swapped_sequences;
  counts.swapped_blocks += stats.num_swapped_blocks;
  return hash;
}

TEST(SchedulerRandom, TokensDependOnNothingAndEveryBlockComesBack) {
  Counts counts;
  for (std::uint32_t seed = 0; seed < 5000; ++seed) {
    run_case(seed, 0, counts);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(counts.preemptions, 100);
  EXPECT_EQ(counts.swapped_sequences + counts.restored_blocks, 0);
}

// With room for all of them, for some, and for hardly any: what is expected is the same.
TEST(SchedulerRandom, TokensDoNotDependOnWhatIsSwappedAndEverySwapBlockComesBack) {
  for (const int num_swap_blocks : {1000, 12, 3}) {
    Counts counts;
    for (std::uint32_t seed = 0; seed < 4000; seed += 2) {  // the even ones outgrow their blocks
      run_case(seed, num_swap_blocks, counts);
      if (HasFailure()) FAIL() << "seed " << seed << " with " << num_swap_blocks;
    }
    EXPECT_GT(counts.swapped_sequences, 25) << num_swap_blocks;
    EXPECT_LT(counts.swapped_sequences, counts.preemptions);
    EXPECT_GT(counts.restored_blocks, 50);
    EXPECT_LE(counts.restored_blocks, counts.swapped_blocks);  // some end before they are back
  }
}

TEST(SchedulerRandom, SameEventsGiveTheSamePlans) {
  Counts ignored;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(run_case(seed, 20, ignored), run_case(seed, 20, ignored));
  }
}

}  // namespace
}  // namespace headrace
