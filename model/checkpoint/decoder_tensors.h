// Which tensors a decoder with given traits has: their canonical names and shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace headrace {

struct DecoderTensor {
  std::string name;                 // "model.layers.3.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  // [rows, cols] of a matrix, [length] of a vector
};

/// Names of the embedding table and of a head of its own.
inline constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";
inline constexpr std::string_view kHeadName = "lm_head.weight";

/// All of them, layer by layer; without lm_head.weight where the head is tied.
std::vector<DecoderTensor> decoder_tensors(const ModelConfig& model);

}  // namespace headrace
