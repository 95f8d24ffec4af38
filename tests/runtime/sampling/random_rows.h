// Random rows of logits and ways to draw from them, and what the definition of a draw says of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/exponential.h"
#include "runtime/sampling/sampling_params.h"

namespace headrace::testing_rows {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline std::vector<TokenId> ids_in_order(const std::vector<float>& logits) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return ids;
}

/// The sum in slices of the definition in token_choice.h.
template <typename Weight>
float plain_total(std::size_t vocab, const Weight& weight) {
  float total = 0;
  for (std::size_t begin = 0; begin < vocab; begin += 1024) {
    float lanes[16] = {};
    const std::size_t end = std::min(begin + 1024, vocab);
    for (std::size_t i = begin; i < end; ++i) lanes[i % 16] += weight(i);
    for (int half = 8; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    }
    total += lanes[0];
  }
  return total;
}

struct PlainDraw {
  TokenId token = -1;
  std::size_t num_walked = 0;  // of the ids in order, those that the draw has to know
};

/// The definition in token_choice.h, word by word: sort everything, then filter.
inline PlainDraw plain_draw(const std::vector<float>& logits, const SamplingParams& params,
                            float uniform) {
  const std::vector<TokenId> ids = ids_in_order(logits);
  if (params.temperature < 1e-5F) return {ids[0], 1};
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
  const bool is_cut = params.top_k > 0 || params.min_p > 0;
  if (!is_cut) total = plain_total(logits.size(), weight);
  std::size_t count = kept.size();
  if (params.top_p < 1) {
    const float wanted = params.top_p * total;
    count = 1;
    while (count < kept.size() && cumulative[count - 1] < wanted) ++count;
    total = cumulative[count - 1];
  }
  std::size_t chosen = 0;
  while (chosen < count && !(cumulative[chosen] > uniform * total)) ++chosen;
  const auto with_weight = [&](std::size_t first_kept) {
    while (weight(static_cast<std::size_t>(kept[first_kept - 1])) == 0) --first_kept;
    return first_kept;
  };
  chosen = std::min(chosen, with_weight(count) - 1);
  if (is_cut) return {kept[chosen], with_weight(kept.size())};
  return {kept[chosen], params.top_p < 1 ? count : chosen + 1};
}

inline std::vector<float> random_logits(std::mt19937& random, int vocab) {
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

inline SamplingParams random_params(std::mt19937& random, int vocab) {
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

inline float random_uniform(std::mt19937& random) {
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

}  // namespace headrace::testing_rows
