// Draws from the leaders of rows are those from the rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "kernels/thread_pool.h"
#include "runtime/sampling/sampler.h"
#include "runtime/sampling/token_choice.h"
#include "runtime/schedule/step_wire.h"
#include "tests/runtime/sampling/random_rows.h"

namespace headrace {
namespace {

using namespace testing_rows;  // NOLINT(google-build-using-namespace): of this folder

// What a device says of a row: the ids from a floor on, in an order of its own.
class Leaders {
 public:
  Leaders(const std::vector<float>& logits, float temperature, float floor, std::mt19937& random)
      : row_{.max = *std::max_element(logits.begin(), logits.end()) + 0.0F, .floor = floor} {
    row_.total = plain_total(logits.size(), [&](std::size_t id) {
      return exp_nonpositive((logits[id] - row_.max) * (1.0F / temperature));
    });
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (logits[id] >= floor) leading_.push_back({static_cast<TokenId>(id), logits[id]});
    }
    std::shuffle(leading_.begin(), leading_.end(), random);
  }

  RowLeaders row() const {
    RowLeaders row = row_;
    row.leading = leading_;
    return row;
  }

 private:
  RowLeaders row_;
  std::vector<LeadingLogit> leading_;
};

// At one of the row's logits, just above or below it, or beyond the last.
float random_floor(const std::vector<float>& logits, std::mt19937& random) {
  const std::vector<TokenId> ids = ids_in_order(logits);
  const std::size_t most = random() % 2 == 0 ? ids.size() : std::min<std::size_t>(ids.size(), 20);
  const float logit = logits[static_cast<std::size_t>(ids[random() % most])];
  switch (random() % 8) {
    case 0:
      return std::nextafter(logit, kInfinity);
    case 1:
      return std::nextafter(logit, -kInfinity);
    case 2:
      return logit - 3.0F;
    case 3:
      return logits[static_cast<std::size_t>(ids.back())] - 1.0F;
    default:
      return logit;
  }
}

void expect_same(const ScoredToken& actual, const ScoredToken& expected) {
  EXPECT_EQ(actual.token, expected.token);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(actual.logprob),
            std::bit_cast<std::uint32_t>(expected.logprob));
  EXPECT_EQ(actual.rank, expected.rank);
  EXPECT_EQ(actual.top, expected.top);
}

TEST(RowLeaders, GiveTheTokenOfTheRowWhereverTheyReachFarEnough) {
  int num_drawn = 0;
  int num_left = 0;
  for (std::uint32_t seed = 0; seed < 5000; ++seed) {
    std::mt19937 random(seed);
    const int vocab = 1 + static_cast<int>(random() % (seed % 50 == 0 ? 5000U : 200U));
    const std::vector<float> logits = random_logits(random, vocab);
    TokenChooser chooser(vocab);
    for (int draw = 0; draw < 4; ++draw) {
      SamplingParams params = random_params(random, vocab);
      params.temperature = std::min(params.temperature, 1e30F);
      const float uniform = random_uniform(random);
      const bool greedy = params.temperature < kGreedyBelow;
      const Leaders leaders(logits, greedy ? 1.0F : params.temperature,
                            random_floor(logits, random), random);
      const RowLeaders row = leaders.row();
      const PlainDraw expected = plain_draw(logits, params, uniform);
      const std::optional<TokenId> token = chooser.choose(row, params, uniform);
      SCOPED_TRACE(::testing::Message() << "seed " << seed << " draw " << draw);
      if (token) {
        ASSERT_EQ(*token, expected.token);
        ASSERT_EQ(*token, chooser.choose(logits, params, uniform));
      } else {
        ASSERT_GE(expected.num_walked, row.leading.size());
      }
      (token ? num_drawn : num_left)++;
    }
  }
  EXPECT_GT(num_drawn, 5000);
  EXPECT_GT(num_left, 1000);
}

TEST(RowLeaders, HaveEndsThatAreKnown) {
  // The best alone, and what lies 20 below is not known: whoever keeps what weighs e^-3 needs no
  // more, nor does who keeps one.
  const LeadingLogit best{7, 5.0F};
  const RowLeaders row{.max = 5.0F, .total = 1.0F, .floor = -15.0F, .leading = {&best, 1}};
  TokenChooser chooser(10);
  EXPECT_EQ(chooser.choose(row, {.min_p = 0.05F}, 0.5F), 7);
  EXPECT_EQ(chooser.choose(row, {.top_k = 1}, 0.5F), 7);
  EXPECT_EQ(chooser.choose(row, {.top_k = 2}, 0.5F), std::nullopt);
  EXPECT_EQ(chooser.choose(row, {.top_p = 0.9F}, 0.5F), 7);
  EXPECT_EQ(chooser.choose(row, {}, 0.5F), 7);
  // Beyond e^-87 nothing weighs anything.
  EXPECT_EQ(chooser.choose(row, {.temperature = 0.2F, .top_k = 2}, 0.5F), 7);
  EXPECT_EQ(chooser.choose({.max = 5.0F, .total = 1.0F}, {.top_k = 1}, 0.5F), std::nullopt);
}

TEST(RowLeaders, ScoreAsTheRowDoes) {
  int num_scored = 0;
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    const int vocab = 1 + static_cast<int>(random() % 300U);
    const std::vector<float> logits = random_logits(random, vocab);
    const Leaders leaders(logits, 1.0F, random_floor(logits, random), random);
    const RowLeaders row = leaders.row();
    const auto token = static_cast<TokenId>(random() % static_cast<std::uint32_t>(vocab));
    const int num_logprobs = static_cast<int>(random() % 22U) - 1;
    SCOPED_TRACE(seed);
    const std::optional<ScoredToken> scored = score_token(row, 1.5F, token, num_logprobs);
    const bool leads = logits[static_cast<std::size_t>(token)] >= row.floor;
    ASSERT_EQ(scored.has_value(), leads && num_logprobs <= std::ssize(row.leading));
    if (!scored) continue;
    expect_same(*scored, score_token(logits, 1.5F, token, num_logprobs));
    ++num_scored;
  }
  EXPECT_GT(num_scored, 300);
}

constexpr int kVocab = 1100;
constexpr int kSlots = 24;

// A sequence's ways to be drawn, of all kinds.
SamplingParams params_of_kind(Slot slot, std::mt19937& random) {
  SamplingParams params = random_params(random, kVocab);
  params.temperature = std::min(params.temperature, 1.5F);
  params.key = random();
  params.num_logprobs = static_cast<int>(random() % 4U) * 7 - 1;
  if (slot % 8 == 3) params.repetition_penalty = 1.2F;
  if (slot % 8 == 4) params.logit_bias = {{3, 1.0F}};
  if (slot % 8 == 5) {
    params.min_tokens = 2;
    params.banned_before_min = {0, 5};
  }
  if (slot % 8 == 6) params.num_prompt_logprobs = 2;
  return params;
}

StepPlan plan_at(int position, std::mt19937& random) {
  StepPlan plan;
  for (Slot slot = 0; slot < kSlots; ++slot) {
    StepEntry entry;
    entry.slot = slot;
    entry.first_position = position;
    entry.num_rows = 1;
    entry.sample = true;
    if (position == 0) {
      Admission admission;
      admission.slot = slot;
      admission.num_prompt_tokens = 1;
      admission.params = params_of_kind(slot, random);
      plan.admitted.push_back(admission);
    }
    plan.entries.push_back(entry);
    plan.tokens.push_back(static_cast<TokenId>(random() % kVocab));
  }
  return plan;
}

RowStatistics statistics_of(std::span<const float> logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return {*std::max_element(logits.begin(), logits.end()), static_cast<float>(std::log(sum))};
}

// Draws as much of a step as leaders tell, then from the rows that are left, and those alone.
std::vector<std::byte> drawn_from_leaders(Sampler& sampler, std::vector<float> logits,
                                          std::span<const RowStatistics> statistics,
                                          std::mt19937& random, int& num_left) {
  std::vector<Leaders> leaders;
  std::vector<RowLeaders> rows;
  for (std::size_t row = 0; row < statistics.size(); ++row) {
    const float temperature = sampler.leader_temperatures()[row];
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * kVocab);
    const std::vector<float> values(begin, begin + kVocab);
    const float floor = temperature > 0.0F ? random_floor(values, random) : kInfinity;
    leaders.emplace_back(values, temperature > 0.0F ? temperature : 1.0F, floor, random);
  }
  for (const Leaders& each : leaders) rows.push_back(each.row());
  std::vector<bool> left(rows.size(), false);
  int before = -1;
  for (const IndexRange& run : sampler.draw_from_leaders(0, rows, statistics)) {
    EXPECT_GT(run.begin, before);
    EXPECT_LT(run.begin, run.end);
    before = run.end;
    for (int row = run.begin; row < run.end; ++row) left[static_cast<std::size_t>(row)] = true;
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_TRUE(left[row] || sampler.leader_temperatures()[row] > 0.0F) << row;
    num_left += left[row] ? 1 : 0;
    if (left[row]) continue;
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * kVocab);
    std::fill(begin, begin + kVocab, 77.0F);  // never brought
  }
  const TensorView view{reinterpret_cast<std::byte*>(logits.data()), std::ssize(rows), kVocab,
                        DType::kFloat32};
  sampler.draw(0, view, statistics);
  std::vector<std::byte> bytes;
  encode(sampler.take_result(), bytes);
  return bytes;
}

TEST(Sampler, DrawsTheSameFromLeadersAsFromRows) {
  const auto pool = make_thread_pool(3);
  Sampler whole(kSlots, kVocab);
  Sampler leading(kSlots, kVocab, pool.get());
  std::mt19937 random(11);
  int num_left = 0;
  int num_rows = 0;
  for (int position = 0; position < 12; ++position) {
    const StepPlan plan = plan_at(position, random);
    whole.begin(plan);
    leading.begin(plan);
    std::vector<float> logits;
    std::vector<RowStatistics> statistics;
    for (std::size_t row = 0; row < whole.rows_with_logits().size(); ++row) {
      std::vector<float> values(kVocab);
      std::normal_distribution<float> normal(0.0F, position % 3 == 0 ? 6.0F : 2.0F);
      for (float& value : values) value = std::round(4.0F * normal(random)) / 4.0F;
      statistics.push_back(statistics_of(values));
      logits.insert(logits.end(), values.begin(), values.end());
    }
    std::vector<BestLogit> best(whole.greedy_rows().size(), {1.0F, 3});
    for (Sampler* sampler : {&whole, &leading}) {
      if (!best.empty()) sampler->take_best(best);
    }
    const std::vector<std::byte> actual =
        drawn_from_leaders(leading, logits, statistics, random, num_left);
    const TensorView view{reinterpret_cast<std::byte*>(logits.data()), std::ssize(statistics),
                          kVocab, DType::kFloat32};
    whole.draw(0, view, statistics);
    std::vector<std::byte> expected;
    encode(whole.take_result(), expected);
    EXPECT_EQ(actual, expected) << "position " << position;
    num_rows += static_cast<int>(statistics.size());
  }
  EXPECT_GT(num_left, num_rows / 4);
  EXPECT_LT(num_left, num_rows * 3 / 4);
}

TEST(Sampler, RefusesLeadersOfRowsThatAreNotFinite) {
  Sampler sampler(kSlots, kVocab);
  std::mt19937 random(3);
  sampler.begin(plan_at(0, random));
  const std::size_t num_rows = sampler.rows_with_logits().size();
  std::vector<RowStatistics> statistics(num_rows, {5.0F, 7.0F});
  const std::vector<RowLeaders> leaders(num_rows);
  EXPECT_THROW(sampler.draw_from_leaders(0, std::span(leaders).first(1), statistics),
               std::invalid_argument);
  EXPECT_EQ(sampler.draw_from_leaders(0, leaders, statistics).size(), 1U);
  EXPECT_THROW(sampler.take_result(), std::logic_error);
  statistics[2].log_sum_exp = NAN;
  EXPECT_THROW(sampler.draw_from_leaders(0, leaders, statistics), std::runtime_error);
}

}  // namespace
}  // namespace headrace
