// Ranges of numbers in files, whatever the format: far above any model there is, low enough that
// products of two of them fit 63 bits.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "model/checkpoint/json_object.h"
#include "model/config.h"

namespace headrace {

inline constexpr IntegerRange kLayers{1, 4096};
inline constexpr IntegerRange kWidth{1, 1 << 24};
inline constexpr IntegerRange kHeads{1, 1 << 16};
inline constexpr IntegerRange kHeadDim{2, 1 << 14};
inline constexpr IntegerRange kVocabulary{1, 1 << 26};
inline constexpr IntegerRange kContext{1, std::numeric_limits<int>::max()};
inline constexpr IntegerRange kTokenId{0, std::numeric_limits<TokenId>::max()};

constexpr bool is_norm_epsilon(double value) {
  return value > 0.0 && value < 1.0;
}

/// How a file spells the numbers that fix the shapes of q, k and v, for messages.
struct HeadKeys {
  std::string_view hidden_size;
  std::string_view num_heads;
  std::string_view num_kv_heads;
  std::string_view head_dim;
};

/// Fills head_dim where it is 0 and checks that the heads fit together. Empty where all is well,
/// else what is wrong.
std::string settle_heads(ModelConfig& model, const HeadKeys& keys);

}  // namespace headrace
