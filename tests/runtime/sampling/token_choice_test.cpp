#include "runtime/sampling/token_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "runtime/sampling/exponential.h"
#include "tests/limits.h"
#include "tests/runtime/sampling/random_rows.h"

namespace headrace {
namespace {

using namespace testing_rows;  // NOLINT(google-build-using-namespace): of this folder

TEST(Exponential, IsCloseAndExactWhereItMatters) {
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-87.1F), 0.0F);
  EXPECT_EQ(exp_nonpositive(-kInfinity), 0.0F);
  float before = 2.0F;
  for (int i = 0; i <= 4000000; ++i) {
    const float x = -static_cast<float>(i) * (87.0F / 4000000.0F);
    const float y = exp_nonpositive(x);
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_LT(std::abs(y - exact), 2.0 * 0x1p-23 * exact) << x;
    ASSERT_LE(y, before) << x;
    before = y;
  }
}

TEST(TokenChooser, ChoosesWhatThePlainDefinitionChooses) {
  for (std::uint32_t seed = 0; seed < 6000; ++seed) {
    std::mt19937 random(seed);
    const int vocab = 1 + static_cast<int>(random() % (seed % 50 == 0 ? 5000U : 200U));
    const std::vector<float> logits = random_logits(random, vocab);
    TokenChooser chooser(vocab);
    for (int draw = 0; draw < 4; ++draw) {
      const SamplingParams params = random_params(random, vocab);
      const float uniform = random_uniform(random);
      ASSERT_EQ(chooser.choose(logits, params, uniform), plain_draw(logits, params, uniform).token)
          << "seed " << seed << " draw " << draw << " temperature " << params.temperature
          << " top_p " << params.top_p << " top_k " << params.top_k << " min_p " << params.min_p
          << " uniform " << uniform;
    }
  }
}

TEST(TokenChooser, DrawsInProportionToTheSoftMax) {
  const std::vector<float> logits = {std::log(1.0F), std::log(4.0F), std::log(2.0F),
                                     std::log(3.0F)};
  TokenChooser chooser(4);
  std::vector<int> counts(4, 0);
  constexpr int kDraws = 10000;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(chooser.choose(logits, {}, static_cast<float>(i) / kDraws))];
  }
  EXPECT_NEAR(counts[0], 1000, 2);
  EXPECT_NEAR(counts[1], 4000, 2);
  EXPECT_NEAR(counts[2], 2000, 2);
  EXPECT_NEAR(counts[3], 3000, 2);
}

TEST(TokenChooser, FiltersFollowEachOtherAsDefined) {
  // Probabilities 0.4, 0.3, 0.2, 0.1 for ids 3, 0, 2, 1.
  const std::vector<float> logits = {std::log(3.0F), std::log(1.0F), std::log(2.0F),
                                     std::log(4.0F)};
  TokenChooser chooser(4);
  const float almost_one = 1.0F - 0x1p-24F;
  const auto last_kept = [&](const SamplingParams& params) {
    return chooser.choose(logits, params, almost_one);
  };
  EXPECT_EQ(last_kept({}), 1);
  EXPECT_EQ(last_kept({.top_k = 3}), 2);
  EXPECT_EQ(last_kept({.min_p = 0.6F}), 0);   // 0.3 / 0.4 stays, 0.2 / 0.4 goes
  EXPECT_EQ(last_kept({.top_p = 0.65F}), 0);  // 0.4 + 0.3
  EXPECT_EQ(last_kept({.top_p = 0.75F}), 2);
  EXPECT_EQ(last_kept({.top_p = 0.1F}), 3);  // one at least
  // Of the three that top_k keeps, the first two hold 0.7 / 0.9 = 0.78.
  EXPECT_EQ(last_kept({.top_p = 0.75F, .top_k = 3}), 0);
  EXPECT_EQ(last_kept({.temperature = 0.0F}), 3);
}

TEST(TokenChooser, TiesGoToTheLowerId) {
  const std::vector<float> logits = {-1.0F, 2.0F, -0.0F, 2.0F, 0.0F};
  EXPECT_EQ(best_token(logits), 1);
  TokenChooser chooser(5);
  EXPECT_EQ(chooser.choose(logits, {.top_k = 1}, 0.99F), 1);
  EXPECT_EQ(chooser.choose(logits, {.top_k = 3}, 1.0F - 0x1p-24F), 2);  // -0 before 0: same value
}

TEST(TokenChooser, InfinitiesDoNotHang) {
  TokenChooser chooser(3);
  EXPECT_EQ(chooser.choose(std::vector<float>{-kInfinity, -kInfinity, -kInfinity}, {}, 0.5F), 0);
  EXPECT_EQ(chooser.choose(std::vector<float>{0.0F, kInfinity, 0.0F}, {}, 0.99F), 1);
}

TEST(ScoreToken, RanksAndListsInOrder) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F, 3.0F, 2.0F};
  const ScoredToken scored = score_token(logits, 4.0F, 4, 3);
  EXPECT_EQ(scored.token, 4);
  EXPECT_EQ(scored.logprob, -2.0F);
  EXPECT_EQ(scored.rank, 4);  // after 1, 3 and the other 2.0 with the lower id
  using Top = std::vector<std::pair<TokenId, float>>;
  EXPECT_EQ(scored.top, (Top{{1, -1.0F}, {3, -1.0F}, {2, -2.0F}}));
  EXPECT_EQ(score_token(logits, 4.0F, 1, 0).rank, 1);
  EXPECT_TRUE(score_token(logits, 4.0F, 1, 0).top.empty());
  EXPECT_EQ(score_token(logits, 4.0F, 1, -1).rank, 0);
  EXPECT_EQ(score_token(logits, 4.0F, 1, 20).top.size(), 5U);
}

TEST(ScoreToken, AgreesWithSortingEverything) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const int vocab = 1 + static_cast<int>(random() % 300U);
    const std::vector<float> logits = random_logits(random, vocab);
    const std::vector<TokenId> ids = ids_in_order(logits);
    const auto place = random() % ids.size();
    const int count = static_cast<int>(random() % 21U);
    const ScoredToken scored = score_token(logits, 1.5F, ids[place], count);
    ASSERT_EQ(scored.rank, static_cast<int>(place) + 1) << seed;
    ASSERT_EQ(scored.top.size(),
              std::min<std::size_t>(static_cast<std::size_t>(count), ids.size()));
    for (std::size_t i = 0; i < scored.top.size(); ++i) {
      ASSERT_EQ(scored.top[i].first, ids[i]) << seed;
      ASSERT_EQ(scored.top[i].second, logits[static_cast<std::size_t>(ids[i])] - 1.5F) << seed;
    }
  }
}

TEST(TokenChooser, CostsAFewPassesOverTheLogits) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 2.5F);
  constexpr int kVocab = 49152;
  std::vector<float> logits(kVocab);
  for (float& logit : logits) logit = normal(random);
  for (int i = 0; i < 40; ++i) logits[random() % kVocab] = 10.0F + normal(random);
  TokenChooser chooser(kVocab);
  const auto us_per_draw = [&](const SamplingParams& params) {
    constexpr int kDraws = 200;
    const auto begin = std::chrono::steady_clock::now();
    TokenId sum = 0;
    for (int i = 0; i < kDraws; ++i) {
      sum += chooser.choose(logits, params, (static_cast<float>(i) + 0.5F) / kDraws);
    }
    const auto end = std::chrono::steady_clock::now();
    EXPECT_GE(sum, 0);
    return std::chrono::duration<double, std::micro>(end - begin).count() / kDraws;
  };
  RecordProperty("greedy_us", std::to_string(us_per_draw({.temperature = 0.0F})));
  RecordProperty("top_p_us", std::to_string(us_per_draw({.top_p = 0.95F})));
  RecordProperty("top_k_us", std::to_string(us_per_draw({.top_k = 50})));
  // Sorting the vocabulary takes some 4000 us; the bound is wide for slow and busy machines.
  EXPECT_LT(us_per_draw({}), time_limit(2000.0));
}

}  // namespace
}  // namespace headrace
