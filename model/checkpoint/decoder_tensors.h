// Which tensors a decoder with given traits has: their canonical names and shapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace headrace {

struct DecoderTensor {
  std::string name;                 // "model.layers.3.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  // [rows, cols] of a matrix, [length] of a vector
};

/// Names of the embedding table, of the table of learned positions, and of a head of its own.
inline constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";
inline constexpr std::string_view kPositionsName = "model.embed_positions.weight";
inline constexpr std::string_view kHeadName = "lm_head.weight";

/// All of them, layer by layer. Names are those of a Hugging Face Llama checkpoint, where
/// post_attention_layernorm is the norm before the MLP; beyond them there are self_attn.q_norm and
/// k_norm, self_attn.post_norm and mlp.post_norm (of what attention and MLP give), and
/// self_attn.sinks, a vector without a suffix. Without lm_head.weight where the head is tied, and
/// without gate_proj where the MLP has no gates.
std::vector<DecoderTensor> decoder_tensors(const ModelConfig& model);

}  // namespace headrace
