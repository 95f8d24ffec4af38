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

namespace headrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<TokenId> ids_in_order(const std::vector<float>& logits) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return ids;
}

// The definition in token_choice.h, word by word: sort everything, then filter.
TokenId plain_choice(const std::vector<float>& logits, const SamplingParams& params,
                     float uniform) {
  const std::vector<TokenId> ids = ids_in_order(logits);
  if (params.temperature < 1e-5F) return ids[0];
  const float max = logits[static_cast<std::size_t>(ids[0])];
  const auto weight = [&](std::size_t id) {
    return exp_nonpositive((logits[id] - max) * (1.0F / params.temperature));
  };
  std::vector<TokenId> kept;
  for (const TokenId id : ids) {
    if (weight(static_cast<std::size_t>(id)) < params.min_p) break;
    if (params.top_k > 0 && static_cast<int>(kept.size()) == params.top_k) break;
    kept.push_back(id);
  }
  std::vector<float> cumulative;
  float sum = 0;
  for (const TokenId id : kept) {
    sum += weight(static_cast<std::size_t>(id));
    cumulative.push_back(sum);
  }
  float total = sum;
  if (params.top_k == 0 && params.min_p == 0) {
    total = 0;
    for (std::size_t begin = 0; begin < logits.size(); begin += 1024) {
      float lanes[16] = {};
      const std::size_t end = std::min(begin + 1024, logits.size());
      for (std::size_t i = begin; i < end; ++i) lanes[i % 16] += weight(i);
      for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
      }
      total += lanes[0];
    }
  }
  std::size_t count = kept.size();
  if (params.top_p < 1) {
    const float wanted = params.top_p * total;
    count = 1;
    while (count < kept.size() && cumulative[count - 1] < wanted) ++count;
    total = cumulative[count - 1];
  }
  std::size_t chosen = 0;
  while (chosen < count && !(cumulative[chosen] > uniform * total)) ++chosen;
  if (chosen < count) return kept[chosen];
  chosen = count - 1;
  while (weight(static_cast<std::size_t>(kept[chosen])) == 0) --chosen;
  return kept[chosen];
}

std::vector<float> random_logits(std::mt19937& random, int vocab) {
  const float spread = std::vector<float>{0.0F, 0.01F, 1.0F, 3.0F, 10.0F, 60.0F}[random() % 6];
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  for (float& logit : logits) logit = spread * normal(random);
  if (random() % 2 == 0) {  // many ties
    for (float& logit : logits) logit = std::round(logit);
  }
  if (random() % 3 == 0) {
    for (float& logit : logits) logit = random() % 8 == 0 ? -kInfinity : logit;
    logits[random() % logits.size()] = 0.5F;
  }
  return logits;
}

SamplingParams random_params(std::mt19937& random, int vocab) {
  SamplingParams params;
  const auto one_of = [&](std::initializer_list<float> values) {
    return *(values.begin() + random() % values.size());
  };
  params.temperature = one_of({0.0F, 1e-6F, 1e-4F, 0.1F, 0.7F, 1.0F, 1.0F, 1.5F, 100.0F, 1e38F});
  params.top_p = one_of({1.0F, 1.0F, 0.95F, 0.5F, 0.01F, 0.9999999F});
  params.min_p = one_of({0.0F, 0.0F, 0.05F, 1e-6F, 1.0F});
  if (random() % 2 == 0) {
    params.top_k = 1 + static_cast<int>(random() % static_cast<std::uint32_t>(2 * vocab));
  }
  if (random() % 4 == 0) params.top_k = 1 + static_cast<int>(random() % 5U);
  return params;
}

float random_uniform(std::mt19937& random) {
  switch (random() % 8) {
    case 0:
      return 0.0F;
    case 1:
      return 1.0F - 0x1p-24F;
    case 2:
      return 1.0F - static_cast<float>(random() % 4096) * 0x1p-24F;
    default:
      return static_cast<float>(random() >> 8) * 0x1p-24F;
  }
}

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
      ASSERT_EQ(chooser.choose(logits, params, uniform), plain_choice(logits, params, uniform))
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
