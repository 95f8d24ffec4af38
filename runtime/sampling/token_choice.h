// Which token a row of logits gives. Every function here is a definition down to the bit: float32
// operations in a stated order, no library functions, ties to the lower id.
//
// "In order" means by logit descending, then id ascending.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "runtime/sampling/sampling_params.h"
#include "runtime/schedule/step_plan.h"

namespace headrace {

/// Temperatures below this are greedy: their weights would be 1 for the best and 0 for the rest.
inline constexpr float kGreedyBelow = 1e-5F;

/// Chooses a token from a row of logits, which already carries bans, biases and penalties.
///
/// Greedy: the first id in order. Otherwise:
///   weight(i) = exp_nonpositive((logit(i) - max) * (1 / temperature))
///   min_p     keeps the ids in order before the first with weight < min_p (the best weighs 1);
///   top_k     keeps the first top_k of them;
///   C(j)      = weights of the first j kept ids, summed in order;
///   total     = C of all kept ids, or, where neither min_p nor top_k is set, the sum over the
///               vocabulary in slices (below);
///   top_p     below 1 keeps the shortest prefix with C >= top_p * total, and total becomes its C;
///   the token is the first with C > uniform * total, or the last with a weight above 0.
/// Sum in slices: each slice of 1,024 ids in 16 interleaved chains (chain j: ids with id % 16 == j,
/// ascending) added pairwise (j, j + 8), (j, j + 4), (j, j + 2), (j, j + 1); slices ascending.
///
/// The vocabulary is not sorted. Ids come in order from segments: those within a few logits of the
/// maximum are gathered and sorted first, the next ones only when the draw lies deeper.
class TokenChooser {
 public:
  /// Reserves all memory it will need.
  explicit TokenChooser(int vocab_size);

  /// uniform in [0, 1). logits: [vocab], no NaN. Where the best logit is infinite, it is chosen.
  TokenId choose(std::span<const float> logits, const SamplingParams& params, float uniform);

  /// The same from the row's leaders at this temperature (at any, where params are greedy): the
  /// token that the whole row gives, or none where the draw needs more of the row.
  std::optional<TokenId> choose(const RowLeaders& leaders, const SamplingParams& params,
                                float uniform);

 private:
  // What is known of the row that is drawn from: all its logits, or those from a floor on.
  struct Row {
    std::span<const float> logits = {};
    std::span<const LeadingLogit> leading = {};
    float max = 0.0F;
    float floor = -std::numeric_limits<float>::infinity();
  };

  void start(const Row& row, float temperature);
  std::optional<TokenId> draw(const SamplingParams& params, float uniform);
  float find_maxima(std::span<const float> logits);
  float sum_in_slices() const;
  bool extend();
  void gather_above(float floor);
  bool next_weight(float& weight);
  bool others_may_weigh(float min_p) const;
  float weight_of(float logit) const;
  TokenId token_at(std::size_t place) const;

  std::vector<float> slice_max_;           // [ceil(vocab / 1024)]
  std::vector<std::uint64_t> candidates_;  // leading ids in order, as sortable keys
  std::vector<std::uint64_t> scratch_;     // for sorting
  std::vector<float> cumulative_;          // C of the candidates walked so far
  Row row_;
  float total_ = 0.0F;  // sum of all weights, where it is needed
  float temperature_ = 1.0F;
  float inverse_temperature_ = 1.0F;
  float ceiling_ = 0.0F;  // candidates are the ids with logit >= ceiling_
  int num_segments_ = 0;
};

/// The first id in order. logits: [vocab], not empty, no NaN.
TokenId best_token(std::span<const float> logits);

/// The token's log-probability, logit - log_sum_exp in float32; with num_logprobs >= 0 also its
/// rank (1 + the number of ids before it in order) and the num_logprobs first ids in order.
ScoredToken score_token(std::span<const float> logits, float log_sum_exp, TokenId token,
                        int num_logprobs);

/// The same from the row's leaders, of which the token is one; none where these are too few.
std::optional<ScoredToken> score_token(const RowLeaders& leaders, float log_sum_exp, TokenId token,
                                       int num_logprobs);

}  // namespace headrace
