#include "runtime/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <thread>

#include "kernels/thread_pool.h"
#include "runtime/sampling/token_choice.h"

#include "runtime/schedule/step_wire.h"

namespace headrace {
namespace {

constexpr int kVocab = 8;

// Steps of one sequence in slot 2, with logits chosen by the test.
struct Fixture {
  Fixture() : sampler(4, kVocab) {}

  static StepPlan plan_of(std::vector<TokenId> tokens, int first_position) {
    StepPlan plan;
    StepEntry entry;
    entry.slot = 2;
    entry.first_position = first_position;
    entry.num_rows = static_cast<std::int32_t>(tokens.size());
    entry.sample = true;
    plan.entries = {entry};
    plan.tokens = std::move(tokens);
    return plan;
  }

  // Prefill: admits with params and samples after the prompt.
  static StepPlan admitting(const SamplingParams& params, const std::vector<TokenId>& prompt) {
    StepPlan plan = plan_of(prompt, 0);
    Admission admission;
    admission.slot = 2;
    admission.num_prompt_tokens = static_cast<std::int32_t>(prompt.size());
    admission.params = params;
    plan.admitted = {admission};
    return plan;
  }

  ScoredToken admit(const SamplingParams& params, const std::vector<TokenId>& prompt,
                    std::vector<float> logits) {
    return sample(admitting(params, prompt), std::move(logits));
  }

  ScoredToken decode(TokenId token, int position, std::vector<float> logits) {
    return sample(plan_of({token}, position), std::move(logits));
  }

  ScoredToken sample(const StepPlan& plan, std::vector<float> logits) {
    sampler.begin(plan);
    const StepResult result = step_result(logits);
    EXPECT_EQ(result.entries.size(), 1U);
    EXPECT_TRUE(result.entries[0].sampled);
    return result.entries[0].token;
  }

  // logits: of the rows that need some or only their best, in the order of the step.
  StepResult step_result(const std::vector<float>& logits) {
    const std::span<const std::int32_t> greedy = sampler.greedy_rows();
    const std::span<const std::int32_t> drawn = sampler.rows_with_logits();
    std::vector<std::int32_t> all(greedy.begin(), greedy.end());
    all.insert(all.end(), drawn.begin(), drawn.end());
    std::sort(all.begin(), all.end());
    std::vector<float> of_drawn;
    std::vector<RowStatistics> statistics;
    std::vector<BestLogit> best;
    for (std::size_t row = 0; row < logits.size() / kVocab; ++row) {
      const std::span<const float> values = std::span(logits).subspan(row * kVocab, kVocab);
      if (std::binary_search(greedy.begin(), greedy.end(), all.at(row))) {
        best.push_back(best_of(values));
      } else {
        of_drawn.insert(of_drawn.end(), values.begin(), values.end());
        statistics.push_back(statistics_of(values));
      }
    }
    const TensorView view{reinterpret_cast<std::byte*>(of_drawn.data()), std::ssize(statistics),
                          kVocab, DType::kFloat32};
    sampler.draw(0, view, statistics);
    if (!best.empty()) sampler.take_best(best);
    return sampler.take_result();
  }

  static RowStatistics statistics_of(std::span<const float> logits) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    return {*std::max_element(logits.begin(), logits.end()), static_cast<float>(std::log(sum))};
  }

  static BestLogit best_of(std::span<const float> logits) {
    for (const float logit : logits) {
      if (!std::isfinite(logit)) return {NAN, -1};
    }
    const TokenId best = best_token(logits);
    return {logits[static_cast<std::size_t>(best)], best};
  }

  Sampler sampler;
};

using Rows = std::vector<std::int32_t>;

Rows rows_of(std::span<const std::int32_t> rows) {
  return {rows.begin(), rows.end()};
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0.0F;
  return params;
}

const std::vector<float> kDescending = {8, 7, 6, 5, 4, 3, 2, 1};

TEST(Sampler, GreedyTakesTheBestAndReportsTheModelsOwnLogprob) {
  Fixture fixture;
  SamplingParams params = greedy();
  params.num_logprobs = 2;
  params.logit_bias = {{0, -100.0F}};
  const ScoredToken token = fixture.admit(params, {1, 2}, kDescending);
  EXPECT_EQ(token.token, 1);
  double sum = 0;
  for (const float logit : kDescending) sum += std::exp(static_cast<double>(logit));
  EXPECT_EQ(token.logprob, 7.0F - static_cast<float>(std::log(sum)));
  EXPECT_EQ(token.rank, 2);  // bias changes what is drawn, not what is reported
  ASSERT_EQ(token.top.size(), 2U);
  EXPECT_EQ(token.top[0].first, 0);
  EXPECT_EQ(token.top[1].first, 1);
  EXPECT_EQ(token.top[1].second, token.logprob);
}

TEST(Sampler, BannedTokensComeOnceEnoughAreGenerated) {
  Fixture fixture;
  SamplingParams params = greedy();
  params.min_tokens = 2;
  params.banned_before_min = {0, 1};
  EXPECT_EQ(fixture.admit(params, {3, 4, 5}, kDescending).token, 2);
  EXPECT_EQ(fixture.decode(2, 3, kDescending).token, 2);
  EXPECT_EQ(fixture.decode(2, 4, kDescending).token, 0);
}

TEST(Sampler, ABanOutweighsABias) {
  Fixture fixture;
  SamplingParams params = greedy();
  params.min_tokens = 1;
  params.banned_before_min = {0};
  params.logit_bias = {{0, 100.0F}, {5, 50.0F}};
  EXPECT_EQ(fixture.admit(params, {3}, kDescending).token, 5);
  EXPECT_EQ(fixture.decode(5, 1, kDescending).token, 0);
}

TEST(Sampler, RepetitionPenaltyCoversPromptAndCompletion) {
  Fixture fixture;
  SamplingParams params = greedy();
  params.repetition_penalty = 2.0F;
  // 8 / 2 = 4 for the prompt's 0, so 1 (7) is best.
  EXPECT_EQ(fixture.admit(params, {0, 0}, kDescending).token, 1);
  // 1 is generated: 3.5; best is 2 (6).
  EXPECT_EQ(fixture.decode(1, 2, kDescending).token, 2);
  // Negative logits are multiplied: -1 * 2 for the seen ones.
  EXPECT_EQ(fixture.decode(2, 3, {-1, -1, -1, -1.5F, -3, -3, -3, -3}).token, 3);
}

TEST(Sampler, PresenceAndFrequencyCountGeneratedTokensOnly) {
  Fixture fixture;
  SamplingParams params = greedy();
  params.presence_penalty = 0.25F;
  params.frequency_penalty = 0.5F;
  const std::vector<float> logits = {2.0F, 1.1F, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(fixture.admit(params, {0, 0, 0}, logits).token, 0);  // the prompt costs nothing
  EXPECT_EQ(fixture.decode(0, 3, logits).token, 0);              // 2 - 0.5 - 0.25 = 1.25
  EXPECT_EQ(fixture.decode(0, 4, logits).token, 1);              // 2 - 1 - 0.25 = 0.75
  EXPECT_EQ(fixture.decode(1, 5, logits).token, 0);              // 0.75 against 1.1 - 0.75
}

// The formulas of all changes, over the whole vocabulary.
std::vector<float> changed_logits(std::vector<float> logits, const SamplingParams& params,
                                  const std::vector<TokenId>& tokens, int num_prompt) {
  const int num_generated = static_cast<int>(tokens.size()) - num_prompt;
  if (num_generated < params.min_tokens) {
    for (const TokenId id : params.banned_before_min)
      logits[static_cast<std::size_t>(id)] = -INFINITY;
  }
  for (const auto& [id, bias] : params.logit_bias) logits[static_cast<std::size_t>(id)] += bias;
  for (int id = 0; id < kVocab; ++id) {
    float& logit = logits[static_cast<std::size_t>(id)];
    const auto total = std::count(tokens.begin(), tokens.end(), id);
    const auto generated = std::count(tokens.begin() + num_prompt, tokens.end(), id);
    if (total > 0) {
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    }
    logit -= params.frequency_penalty * static_cast<float>(generated);
    logit -= generated > 0 ? params.presence_penalty : 0.0F;
  }
  return logits;
}

TEST(Sampler, AgreesWithTheFormulasOnRandomSequences) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto real = [&](float low, float high) {
      return std::uniform_real_distribution<float>(low, high)(random);
    };
    SamplingParams params;
    params.temperature = real(0.2F, 2.0F);
    params.top_p = random() % 2 == 0 ? 1.0F : real(0.3F, 1.0F);
    params.top_k = static_cast<int>(random() % 6);
    if (random() % 2 == 0) params.repetition_penalty = real(0.5F, 2.0F);
    if (random() % 2 == 0) params.presence_penalty = real(-2.0F, 2.0F);
    if (random() % 2 == 0) params.frequency_penalty = real(-2.0F, 2.0F);
    params.logit_bias = {{1, real(-3, 3)}, {6, real(-3, 3)}};
    params.banned_before_min = {1, 4};
    params.min_tokens = static_cast<int>(random() % 5);
    params.key = random();
    params.stream = (std::uint64_t{random()} << 32) | random();
    params.choice = random() % 4;

    std::vector<TokenId> tokens;
    for (std::uint32_t i = 0; i <= random() % 6; ++i) {
      tokens.push_back(static_cast<TokenId>(random() % kVocab));
    }
    const int num_prompt = static_cast<int>(tokens.size());
    Fixture fixture;
    TokenChooser chooser(kVocab);
    for (int step = 0; step < 12; ++step) {
      std::vector<float> logits(kVocab);
      for (float& logit : logits) logit = real(-4, 4);
      const PhiloxCounter counter = {{static_cast<std::uint32_t>(params.stream),
                                      static_cast<std::uint32_t>(params.stream >> 32),
                                      params.choice, static_cast<std::uint32_t>(step)}};
      const float uniform =
          static_cast<float>(philox4x32_10(counter, params.key).word[0] >> 8) / 16777216.0F;
      const TokenId expected =
          chooser.choose(changed_logits(logits, params, tokens, num_prompt), params, uniform);
      const int position = static_cast<int>(tokens.size()) - 1;
      const ScoredToken token = step == 0 ? fixture.admit(params, tokens, logits)
                                          : fixture.decode(tokens.back(), position, logits);
      ASSERT_EQ(token.token, expected) << "seed " << seed << " step " << step;
      tokens.push_back(token.token);
    }
  }
}

TEST(Sampler, ASequenceAdmittedAgainGoesOnAsBefore) {
  std::mt19937 random(3);
  std::vector<std::vector<float>> logits;
  for (int i = 0; i < 6; ++i) {
    logits.emplace_back();
    for (int id = 0; id < kVocab; ++id) {
      logits.back().push_back(static_cast<float>(random() % 1000) / 250.0F);
    }
  }
  SamplingParams params;
  params.presence_penalty = 0.7F;
  params.repetition_penalty = 1.3F;
  params.key = 99;
  Fixture straight;
  std::vector<TokenId> tokens = {1, 5, 1};
  tokens.push_back(straight.admit(params, tokens, logits[0]).token);
  for (std::size_t i = 1; i < 6; ++i) {
    const int position = static_cast<int>(tokens.size()) - 1;
    tokens.push_back(straight.decode(tokens.back(), position, logits[i]).token);
  }
  // Preempted after three tokens: released, admitted again with all tokens, in two chunks.
  Fixture again;
  const auto begin = tokens.begin();
  (void)again.admit(params, {1, 5, 1}, logits[0]);
  StepPlan first = Fixture::plan_of({begin, begin + 4}, 0);
  first.released = {2};
  first.entries[0].sample = false;
  Admission admission;
  admission.slot = 2;
  admission.num_prompt_tokens = 3;
  admission.params = params;
  first.admitted = {admission};
  again.sampler.begin(first);
  EXPECT_EQ(again.sample(Fixture::plan_of({begin + 4, begin + 6}, 4), logits[3]).token, tokens[6]);
}

TEST(Sampler, ScoresPromptRowsAndSamplesAfterThem) {
  Fixture fixture;
  StepPlan plan = Fixture::plan_of({4, 5, 6}, 0);
  plan.entries[0].score = true;
  plan.following = {-1};
  Admission admission;
  admission.slot = 2;
  admission.num_prompt_tokens = 3;
  admission.params = greedy();
  admission.params.num_prompt_logprobs = 1;
  plan.admitted = {admission};
  std::vector<float> logits = kDescending;
  logits.insert(logits.end(), kDescending.rbegin(), kDescending.rend());
  logits.insert(logits.end(), kDescending.begin(), kDescending.end());
  fixture.sampler.begin(plan);
  EXPECT_EQ(rows_of(fixture.sampler.rows_with_logits()), (Rows{0, 1}));
  EXPECT_EQ(rows_of(fixture.sampler.greedy_rows()), (Rows{2}));
  const StepResult result = fixture.step_result(logits);
  ASSERT_EQ(result.entries.size(), 1U);
  ASSERT_EQ(result.entries[0].scored.size(), 2U);
  EXPECT_EQ(result.entries[0].scored[0].token, 5);
  EXPECT_EQ(result.entries[0].scored[0].rank, 6);
  EXPECT_EQ(result.entries[0].scored[0].top[0].first, 0);
  EXPECT_EQ(result.entries[0].scored[1].token, 6);
  EXPECT_EQ(result.entries[0].scored[1].rank, 2);
  EXPECT_EQ(result.entries[0].token.token, 0);
}

TEST(Sampler, NamesTheRowsWhoseLogitsAreNeeded) {
  StepPlan plan;
  const auto entry = [&](Slot slot, int rows, bool sample, bool score) {
    StepEntry e;
    e.slot = slot;
    e.num_rows = rows;
    e.sample = sample;
    e.score = score;
    plan.entries.push_back(e);
    plan.tokens.resize(plan.tokens.size() + static_cast<std::size_t>(rows));
  };
  entry(0, 1, true, false);
  entry(1, 3, false, false);
  entry(2, 2, false, true);  // goes on
  entry(3, 2, false, true);  // ends
  entry(0, 4, true, false);
  plan.following = {7, -1};
  for (Slot slot = 0; slot < 4; ++slot) {
    Admission admission;
    admission.slot = slot;
    admission.num_prompt_tokens = 1;
    plan.admitted.push_back(admission);
  }
  Sampler sampler(4, kVocab);
  sampler.begin(plan);
  EXPECT_EQ(rows_of(sampler.rows_with_logits()), (Rows{0, 4, 5, 6, 11}));
  EXPECT_EQ(rows_of(sampler.greedy_rows()), Rows{});
}

// Whatever changes logits, or asks for a log-probability, needs all of them.
TEST(Sampler, GreedyRowsAreThoseThatNeedTheModelsBestLogitAlone) {
  struct Case {
    const char* what;
    bool greedy;
    std::function<void(SamplingParams&)> set;
  };
  const std::vector<Case> cases = {
      {"greedy", true, [](SamplingParams&) {}},
      {"warm", false, [](SamplingParams& p) { p.temperature = 0.5F; }},
      {"log-probability", false, [](SamplingParams& p) { p.num_logprobs = 0; }},
      {"bias", false,
       [](SamplingParams& p) {
         p.logit_bias = {{1, 1.0F}};
       }},
      {"presence", false, [](SamplingParams& p) { p.presence_penalty = 0.1F; }},
      {"frequency", false, [](SamplingParams& p) { p.frequency_penalty = 0.1F; }},
      {"repetition", false, [](SamplingParams& p) { p.repetition_penalty = 1.1F; }},
      {"truncation that greedy ignores", true, [](SamplingParams& p) { p.top_k = 3; }},
      {"a ban that is on", false,
       [](SamplingParams& p) {
         p.min_tokens = 1;
         p.banned_before_min = {0};
       }},
      {"nothing to ban", true, [](SamplingParams& p) { p.min_tokens = 1; }},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    Fixture fixture;
    SamplingParams params = greedy();
    each.set(params);
    fixture.sampler.begin(Fixture::admitting(params, {4}));
    EXPECT_EQ(rows_of(fixture.sampler.greedy_rows()), each.greedy ? Rows{0} : Rows{});
    EXPECT_EQ(rows_of(fixture.sampler.rows_with_logits()), each.greedy ? Rows{} : Rows{0});
    fixture.step_result(kDescending);
    // Behind the ban the row is greedy.
    fixture.sampler.begin(Fixture::plan_of({4}, 1));
    const bool later = each.greedy || params.min_tokens == 1;
    EXPECT_EQ(fixture.sampler.greedy_rows().size(), later ? 1U : 0U);
    fixture.step_result(kDescending);
  }
}

TEST(Sampler, BestLogitsMustFitTheirRows) {
  Fixture fixture;
  const StepPlan plan = Fixture::admitting(greedy(), {4});
  const auto take = [&](std::vector<BestLogit> best) { fixture.sampler.take_best(best); };
  fixture.sampler.begin(plan);
  EXPECT_THROW(take({}), std::invalid_argument);
  EXPECT_THROW(take({{1.0F, kVocab}}), std::runtime_error);
  EXPECT_THROW(take({{1.0F, -1}}), std::runtime_error);
  EXPECT_THROW(take({{NAN, -1}}), std::runtime_error);
  EXPECT_THROW(fixture.sampler.take_result(), std::logic_error);
  fixture.sampler.begin(plan);
  take({{1.0F, 5}});
  EXPECT_EQ(fixture.sampler.take_result().entries.at(0).token.token, 5);
}

// Runs tasks on threads of their own.
class TestPool : public ThreadPool {
 public:
  int num_threads() const override { return 4; }
  int thread_index() const override { throw std::logic_error("sampling needs no index"); }
  void parallel_for(int num_tasks, const std::function<void(int)>& task) override {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(num_tasks));
    for (int i = 0; i < num_tasks; ++i) threads.emplace_back([&task, i] { task(i); });
  }
  void set_poll(std::function<void()>) override {}
};

TEST(Sampler, ThreadsChangeNothing) {
  constexpr int kSlots = 40;
  TestPool pool;
  Sampler alone(kSlots, kVocab);
  Sampler together(kSlots, kVocab, &pool);
  std::mt19937 random(5);
  for (int position = 0; position < 20; ++position) {
    StepPlan plan;
    for (Slot slot = 0; slot < kSlots; ++slot) {
      StepEntry entry;
      entry.slot = slot;
      entry.first_position = position;
      entry.num_rows = 1;
      entry.sample = true;
      plan.entries.push_back(entry);
      plan.tokens.push_back(static_cast<TokenId>(random() % kVocab));
      if (position > 0) continue;
      Admission admission;
      admission.slot = slot;
      admission.num_prompt_tokens = 1;
      admission.params.key = random();
      admission.params.repetition_penalty = 1.2F;
      plan.admitted.push_back(admission);
    }
    std::vector<float> logits(kSlots * kVocab);
    for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 200.0F;
    const std::vector<float> before = logits;
    const std::vector<RowStatistics> statistics(kSlots, {5.0F, 7.0F});
    const TensorView view{reinterpret_cast<std::byte*>(logits.data()), kSlots, kVocab,
                          DType::kFloat32};
    std::vector<std::byte> bytes[2];
    alone.begin(plan);
    alone.draw(0, view, statistics);
    encode(alone.take_result(), bytes[0]);
    together.begin(plan);
    together.draw(0, view, statistics);
    encode(together.take_result(), bytes[1]);
    EXPECT_EQ(bytes[0], bytes[1]);
    EXPECT_EQ(logits, before);
  }
}

// One sampler draws all rows at once; two others, as ranks that share the stage, draw some each, in
// turns, and the first takes in what the second drew.
TEST(Sampler, RanksMayShareTheRowsOfAStep) {
  constexpr int kRows = 12;
  Sampler whole(3, kVocab);
  Sampler first(3, kVocab);
  Sampler second(3, kVocab);
  StepPlan plan;
  for (Slot slot = 0; slot < 3; ++slot) {
    StepEntry entry;
    entry.slot = slot;
    entry.num_rows = 4;
    entry.sample = slot != 1;
    entry.score = true;
    plan.entries.push_back(entry);
    plan.tokens.insert(plan.tokens.end(), {1, 2, 3, 4});
    plan.following.push_back(slot == 1 ? 5 : -1);
    Admission admission;
    admission.slot = slot;
    admission.num_prompt_tokens = 4;
    admission.params.key = static_cast<std::uint64_t>(slot);
    admission.params.num_logprobs = slot;
    admission.params.num_prompt_logprobs = 2;
    plan.admitted.push_back(admission);
  }
  std::mt19937 random(9);
  std::vector<float> logits(kRows * kVocab);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 200.0F;
  const auto draw = [&](Sampler& sampler, IndexRange rows) {
    const TensorView view{reinterpret_cast<std::byte*>(logits.data() + rows.begin * kVocab),
                          rows.size(), kVocab, DType::kFloat32};
    sampler.draw(rows.begin, view,
                 std::vector<RowStatistics>(static_cast<std::size_t>(rows.size()), {5.0F, 7.0F}));
  };
  for (Sampler* sampler : {&whole, &first, &second}) sampler->begin(plan);
  draw(whole, {0, kRows});
  draw(first, {0, 5});
  draw(second, {5, 8});
  draw(first, {8, 9});
  draw(second, {9, kRows});

  std::vector<ScoredToken> drawn;
  second.append_drawn({5, 8}, drawn);
  second.append_drawn({9, kRows}, drawn);
  std::vector<std::byte> bytes;
  encode(drawn, bytes);
  const std::vector<ScoredToken> sent = decode_scored_tokens(bytes);
  std::span<const ScoredToken> left = sent;
  left = first.fill_drawn({5, 8}, left);
  EXPECT_THROW(first.fill_drawn({9, kRows}, {}), std::runtime_error);
  left = first.fill_drawn({9, kRows}, left);
  EXPECT_TRUE(left.empty());

  std::vector<std::byte> expected;
  std::vector<std::byte> actual;
  encode(whole.take_result(), expected);
  encode(first.take_result(), actual);
  EXPECT_EQ(actual, expected);
}

TEST(Sampler, RefusesWhatItCannotUse) {
  EXPECT_THROW(Sampler(0, 5), std::invalid_argument);
  Fixture fixture;
  StepPlan plan = Fixture::plan_of({1}, 0);
  EXPECT_THROW(fixture.sampler.begin(plan), std::runtime_error);  // never admitted
  Admission admission;
  admission.slot = 4;
  plan.admitted = {admission};
  EXPECT_THROW(fixture.sampler.begin(plan), std::runtime_error);  // no such slot
  plan.admitted[0].slot = 2;
  plan.admitted[0].params.logit_bias = {{kVocab, 1.0F}};
  EXPECT_THROW(fixture.sampler.begin(plan), std::runtime_error);
  plan.admitted[0].params.logit_bias.clear();
  fixture.sampler.begin(plan);
  std::vector<float> logits = kDescending;
  logits[3] = NAN;
  EXPECT_THROW(fixture.step_result(logits), std::runtime_error);
  std::vector<float> none;
  EXPECT_THROW(fixture.step_result(none), std::logic_error);
}

}  // namespace
}  // namespace headrace
