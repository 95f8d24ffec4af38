#include "runtime/sampling/token_choice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/sampling/exponential.h"

namespace headrace {
namespace {

constexpr std::size_t kSlice = 1024;
constexpr std::size_t kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// How far below the maximum the segments end, in units of the temperature. The first few hold most
// of the mass of a language model's row in some ten to some hundred ids; beyond the last every
// weight is 0 (kMinExponent).
constexpr std::array<float, 9> kDepths = {2, 4, 6, 9, 13, 18, 26, 40, 90};

// Sorting keys ascending puts logits descending, ids ascending. Floats order as their bits do once
// negative ones are inverted; adding 0 makes -0 equal to 0.
std::uint64_t key_of(float logit, std::size_t id) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);
  const std::uint32_t descending = (bits >> 31) != 0 ? bits : ~(bits | 0x80000000U);
  return (std::uint64_t{descending} << 32) | id;
}

std::uint64_t key_of(const LeadingLogit& leader) {
  return key_of(leader.logit, static_cast<std::size_t>(leader.id));
}

float logit_of(std::uint64_t key) {
  const auto descending = static_cast<std::uint32_t>(key >> 32);
  return std::bit_cast<float>((descending >> 31) != 0 ? descending : ~descending & 0x7FFFFFFFU);
}

std::size_t id_of(std::uint64_t key) {
  return static_cast<std::size_t>(key & 0xFFFFFFFFU);
}

// No total over the vocabulary is needed.
bool is_cut(const SamplingParams& params) {
  return params.top_k > 0 || params.min_p > 0.0F;
}

float add_pairwise(std::array<float, kLanes>& lanes) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

float max_of(std::span<const float> values) {
  std::array<float, kLanes> lanes;
  lanes.fill(-kInfinity);
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
    }
  }
  for (; i < values.size(); ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  return *std::max_element(lanes.begin(), lanes.end());
}

// Sum of the weights of one slice, as TokenChooser defines it. The chains lie in four vectors.
float slice_sum(std::span<const float> logits, float max, float inverse_temperature) {
  constexpr std::size_t kVectors = 4;
  std::array<FloatLanes, kVectors> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      FloatLanes x;
      std::memcpy(&x, logits.data() + i + v * sizeof(x) / sizeof(float), sizeof(x));
      sums[v] += exp_nonpositive((x - max) * inverse_temperature);
    }
  }
  auto lanes = std::bit_cast<std::array<float, kLanes>>(sums);
  for (std::size_t j = 0; i + j < logits.size(); ++j) {
    lanes[j] += exp_nonpositive((logits[i + j] - max) * inverse_temperature);
  }
  return add_pairwise(lanes);
}

// Appends the keys of ids whose logit lies in [floor, ceiling).
void gather(std::span<const float> logits, std::size_t first_id, float floor, float ceiling,
            std::vector<std::uint64_t>& out) {
  for (std::size_t i = 0; i < logits.size(); i += kLanes) {
    const std::span<const float> block = logits.subspan(i, std::min(kLanes, logits.size() - i));
    if (block.size() == kLanes) {
      int num_inside = 0;  // without branches, so that most blocks cost a few vector operations
      for (std::size_t j = 0; j < kLanes; ++j) {
        num_inside += static_cast<int>(block[j] >= floor) & static_cast<int>(block[j] < ceiling);
      }
      if (num_inside == 0) continue;
    }
    for (std::size_t j = 0; j < block.size(); ++j) {
      if (block[j] >= floor && block[j] < ceiling)
        out.push_back(key_of(block[j], first_id + i + j));
    }
  }
}

// Sorts keys that come with ascending ids: three stable passes of 11 bits over the logit's half.
void radix_sort(std::span<std::uint64_t> keys, std::vector<std::uint64_t>& scratch) {
  constexpr int kBits = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  constexpr int kPasses = 3;  // 3 * 11 bits cover 32
  const auto digit = [](std::uint64_t key, int pass) {
    return static_cast<std::size_t>(key >> (32 + pass * kBits)) & (kBuckets - 1);
  };
  std::array<std::array<std::uint32_t, kBuckets>, kPasses> next{};
  for (const std::uint64_t key : keys) {
    for (int pass = 0; pass < kPasses; ++pass)
      ++next[static_cast<std::size_t>(pass)][digit(key, pass)];
  }
  scratch.resize(keys.size());
  std::span<std::uint64_t> from = keys;
  std::span<std::uint64_t> to = scratch;
  for (int pass = 0; pass < kPasses; ++pass) {
    auto& places = next[static_cast<std::size_t>(pass)];
    std::exclusive_scan(places.begin(), places.end(), places.begin(), 0U);
    for (const std::uint64_t key : from) to[places[digit(key, pass)]++] = key;
    std::swap(from, to);
  }
  std::copy(from.begin(), from.end(), keys.begin());
}

std::size_t num_before(std::span<const float> logits, TokenId token) {
  const float own = logits[static_cast<std::size_t>(token)];
  std::int32_t greater = 0;
  for (const float logit : logits) greater += static_cast<std::int32_t>(logit > own);
  const auto lower_ids = logits.first(static_cast<std::size_t>(token));
  return static_cast<std::size_t>(greater + std::count(lower_ids.begin(), lower_ids.end(), own));
}

// The k first ids in order, with their logits.
std::vector<std::pair<TokenId, float>> best_k(std::span<const float> logits, std::size_t k) {
  std::vector<std::pair<TokenId, float>> best;
  k = std::min(k, logits.size());
  if (k == 0) return best;
  best.reserve(k + 1);
  for (std::size_t i = 0; i < logits.size(); i += kLanes) {
    const std::span<const float> block = logits.subspan(i, std::min(kLanes, logits.size() - i));
    if (best.size() == k && !(max_of(block) > best.back().second)) continue;
    for (std::size_t j = 0; j < block.size(); ++j) {
      // Ids ascend, so an equal logit found later comes later in order.
      if (best.size() == k && !(block[j] > best.back().second)) continue;
      const auto place = std::find_if(best.begin(), best.end(),
                                      [&](const auto& other) { return block[j] > other.second; });
      best.insert(place, {static_cast<TokenId>(i + j), block[j]});
      if (best.size() > k) best.pop_back();
    }
  }
  return best;
}

}  // namespace

TokenChooser::TokenChooser(int vocab_size) {
  const auto vocab = static_cast<std::size_t>(vocab_size);
  slice_max_.resize((vocab + kSlice - 1) / kSlice);
  candidates_.reserve(vocab);
  scratch_.reserve(vocab);
  cumulative_.reserve(vocab);
}

TokenId TokenChooser::choose(std::span<const float> logits, const SamplingParams& params,
                             float uniform) {
  if (params.temperature < kGreedyBelow) return best_token(logits);
  const float max = find_maxima(logits);
  // Extreme biases and penalties can leave infinities; then there are no weights to speak of.
  if (!std::isfinite(max)) return best_token(logits);
  start({.logits = logits, .max = max}, params.temperature);
  if (!is_cut(params)) total_ = sum_in_slices();
  return *draw(params, uniform);  // from a whole row there always is one
}

std::optional<TokenId> TokenChooser::choose(const RowLeaders& leaders, const SamplingParams& params,
                                            float uniform) {
  if (leaders.leading.empty() || !std::isfinite(leaders.max)) return std::nullopt;
  if (params.temperature < kGreedyBelow) {
    const auto key = [](const LeadingLogit& leader) { return key_of(leader); };
    return std::ranges::min(leaders.leading, {}, key).id;
  }
  start({.leading = leaders.leading, .max = leaders.max, .floor = leaders.floor},
        params.temperature);
  total_ = leaders.total;
  return draw(params, uniform);
}

void TokenChooser::start(const Row& row, float temperature) {
  row_ = row;
  temperature_ = temperature;
  inverse_temperature_ = 1.0F / temperature;
  candidates_.clear();
  cumulative_.clear();
  ceiling_ = kInfinity;
  num_segments_ = 0;
}

std::optional<TokenId> TokenChooser::draw(const SamplingParams& params, float uniform) {
  const std::size_t most = params.top_k > 0 ? static_cast<std::size_t>(params.top_k)
                                            : std::numeric_limits<std::size_t>::max();
  float sum = 0.0F;
  bool is_known = true;
  // Walks on in order; false at the end of what min_p and top_k keep, or of weights above 0, or
  // where the row is not known any further.
  const auto step = [&] {
    if (cumulative_.size() >= most) return false;
    float weight = 0.0F;
    if (!next_weight(weight)) {
      is_known = !others_may_weigh(params.min_p);
      return false;
    }
    if (weight < params.min_p || weight == 0.0F) return false;
    sum += weight;
    cumulative_.push_back(sum);
    return true;
  };
  float total = total_;
  if (is_cut(params)) {
    while (step()) {
    }
    total = sum;
  }
  if (params.top_p < 1.0F) {
    const float wanted = params.top_p * total;
    while (sum < wanted && step()) {
    }
    const auto end = std::lower_bound(cumulative_.begin(), cumulative_.end(), wanted);
    if (end != cumulative_.end()) cumulative_.erase(end + 1, cumulative_.end());
    total = cumulative_.back();
  }
  const float target = uniform * total;
  const bool walked = is_cut(params) || params.top_p < 1.0F;
  while (!walked && !(sum > target) && step()) {
  }
  if (!is_known) return std::nullopt;
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), target);
  const auto last = cumulative_.end() - 1;
  return token_at(static_cast<std::size_t>(std::min(found, last) - cumulative_.begin()));
}

float TokenChooser::find_maxima(std::span<const float> logits) {
  for (std::size_t slice = 0; slice < slice_max_.size(); ++slice) {
    const std::size_t begin = slice * kSlice;
    slice_max_[slice] = max_of(logits.subspan(begin, std::min(kSlice, logits.size() - begin)));
  }
  return *std::max_element(slice_max_.begin(), slice_max_.end());
}

float TokenChooser::sum_in_slices() const {
  const std::span<const float> logits = row_.logits;
  float sum = 0.0F;
  for (std::size_t slice = 0; slice < slice_max_.size(); ++slice) {
    // A slice without weight adds exactly 0.
    if ((slice_max_[slice] - row_.max) * inverse_temperature_ < kMinExponent) continue;
    const std::size_t begin = slice * kSlice;
    const auto part = logits.subspan(begin, std::min(kSlice, logits.size() - begin));
    sum += slice_sum(part, row_.max, inverse_temperature_);
  }
  return sum;
}

// Appends the keys of known ids whose logit lies in [floor, ceiling_).
void TokenChooser::gather_above(float floor) {
  for (const LeadingLogit& leader : row_.leading) {
    if (leader.logit >= floor && leader.logit < ceiling_) candidates_.push_back(key_of(leader));
  }
  if (!row_.leading.empty()) return;
  for (std::size_t slice = 0; slice < slice_max_.size(); ++slice) {
    if (slice_max_[slice] < floor) continue;
    const std::size_t begin = slice * kSlice;
    const auto part = row_.logits.subspan(begin, std::min(kSlice, row_.logits.size() - begin));
    gather(part, begin, floor, ceiling_, candidates_);
  }
}

// Adds the next segment to the candidates. False when none is left with a weight above 0, or none
// that is known.
bool TokenChooser::extend() {
  const std::size_t before = candidates_.size();
  while (candidates_.size() == before) {
    if (num_segments_ == static_cast<int>(kDepths.size()) || ceiling_ <= row_.floor) return false;
    const float depth = kDepths[static_cast<std::size_t>(num_segments_++)];
    const float floor = std::max(row_.max - depth * temperature_, row_.floor);
    gather_above(floor);
    ceiling_ = floor;
  }
  const std::span<std::uint64_t> segment = std::span(candidates_).subspan(before);
  constexpr std::size_t kRadixFrom = 1500;                     // about where it overtakes std::sort
  if (row_.leading.empty() && segment.size() >= kRadixFrom) {  // leaders come in any order
    radix_sort(segment, scratch_);
  } else {
    std::sort(segment.begin(), segment.end());
  }
  return true;
}

bool TokenChooser::next_weight(float& weight) {
  const std::size_t place = cumulative_.size();
  if (place == candidates_.size() && !extend()) return false;
  weight = weight_of(logit_of(candidates_[place]));
  return true;
}

// Of ids that are not known only this is: they weigh at most what one at the floor would.
bool TokenChooser::others_may_weigh(float min_p) const {
  if (row_.floor == -kInfinity) return false;
  const float most = weight_of(row_.floor);
  return most > 0.0F && most >= min_p;
}

float TokenChooser::weight_of(float logit) const {
  return exp_nonpositive((logit - row_.max) * inverse_temperature_);
}

TokenId TokenChooser::token_at(std::size_t place) const {
  return static_cast<TokenId>(id_of(candidates_[place]));
}

TokenId best_token(std::span<const float> logits) {
  const float max = max_of(logits);
  const auto found = std::find(logits.begin(), logits.end(), max);
  return static_cast<TokenId>(found - logits.begin());
}

ScoredToken score_token(std::span<const float> logits, float log_sum_exp, TokenId token,
                        int num_logprobs) {
  ScoredToken scored;
  scored.token = token;
  scored.logprob = logits[static_cast<std::size_t>(token)] - log_sum_exp;
  if (num_logprobs < 0) return scored;
  scored.rank = static_cast<std::int32_t>(num_before(logits, token)) + 1;
  scored.top = best_k(logits, static_cast<std::size_t>(num_logprobs));
  for (auto& [id, value] : scored.top) value -= log_sum_exp;
  return scored;
}

std::optional<ScoredToken> score_token(const RowLeaders& leaders, float log_sum_exp, TokenId token,
                                       int num_logprobs) {
  const std::span<const LeadingLogit> leading = leaders.leading;
  const auto own = std::ranges::find(leading, token, &LeadingLogit::id);
  if (own == leading.end()) return std::nullopt;
  ScoredToken scored;
  scored.token = token;
  scored.logprob = own->logit - log_sum_exp;
  if (num_logprobs < 0) return scored;
  const auto num_top = static_cast<std::size_t>(num_logprobs);
  if (num_top > leading.size()) return std::nullopt;
  const auto key = [](const LeadingLogit& leader) { return key_of(leader); };
  const auto before = std::ranges::count_if(
      leading, [&](const LeadingLogit& leader) { return key_of(leader) < key_of(*own); });
  scored.rank = static_cast<std::int32_t>(before) + 1;
  std::vector<LeadingLogit> top(num_top);
  std::ranges::partial_sort_copy(leading, top, {}, key, key);
  for (const LeadingLogit& leader : top) {
    scored.top.emplace_back(leader.id, leader.logit - log_sum_exp);
  }
  return scored;
}

}  // namespace headrace
