// How the tokens of one choice are drawn. Travels to the last stage with the sequence's admission.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/token.h"

namespace headrace {

/// Names and neutral values follow vLLM's SamplingParams. Ranges are checked where a request is
/// parsed.
struct SamplingParams {
  float temperature = 1.0F;                             // 0: greedy
  float top_p = 1.0F;                                   // (0, 1]
  int top_k = 0;                                        // 0: all
  float min_p = 0.0F;                                   // [0, 1]
  float presence_penalty = 0.0F;                        // over generated tokens
  float frequency_penalty = 0.0F;                       // over generated tokens
  float repetition_penalty = 1.0F;                      // over prompt and generated tokens, > 0
  std::vector<std::pair<TokenId, float>> logit_bias{};  // ascending ids, at most kMaxLogitBias

  // Never sampled while fewer than min_tokens tokens are generated: stop and end-of-sequence ids.
  int min_tokens = 0;
  std::vector<TokenId> banned_before_min{};  // ascending, at most kMaxStopIds

  // Philox 4x32-10: the key, and the first two words of the counter are (stream, choice).
  std::uint64_t key = 0;     // the request's seed, or the job's
  std::uint64_t stream = 0;  // 0 with a request's own seed, else the hash of its custom_id
  std::uint32_t choice = 0;  // index of the choice among the request's

  int num_logprobs = -1;         // -1: none; k >= 0: the token's own and the k best
  int num_prompt_logprobs = -1;  // likewise for every prompt position after the first

  /// What is drawn next depends on tokens before it, other than by their number.
  bool has_penalties() const {
    return presence_penalty != 0.0F || frequency_penalty != 0.0F || repetition_penalty != 1.0F;
  }
};

inline constexpr int kMaxLogitBias = 1024;  // OpenAI and vLLM clients send at most 300
inline constexpr int kMaxStopIds = 256;
inline constexpr int kMaxLogprobs = 20;  // OpenAI's limit of top_logprobs

}  // namespace headrace
