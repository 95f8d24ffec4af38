// How GGUF metadata describes rotary position embeddings: the same keys in every family, with the
// architecture's name in front.
#pragma once

#include <string_view>

#include "model/checkpoint/gguf_file.h"
#include "model/config.h"

namespace headrace {

/// Tensors with the two sets of divisors of a long RoPE.
inline constexpr std::string_view kGgufLongDivisors = "rope_factors_long.weight";
inline constexpr std::string_view kGgufShortDivisors = "rope_factors_short.weight";

/// prefix is the architecture's name and a dot: "llama.". Throws std::invalid_argument for a
/// scaling that RopeConfig does not have, naming those it has. Divisors in tensors are not read
/// here: opening adds them.
RopeConfig rope_from_gguf(const GgufFile& file, std::string_view prefix, int head_dim,
                          int max_position_embeddings);

}  // namespace headrace
