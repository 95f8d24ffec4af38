// What the Granite families have in common in config.json.
#pragma once

#include "model/checkpoint/json_object.h"
#include "model/config.h"
#include "model/families/config_json_facts.h"

namespace headrace {

/// Biases, and factors on embeddings, attention, residuals and logits.
inline void read_granite_traits(const JsonObject& config, ModelConfig& model) {
  model.qkv_bias = config.boolean("attention_bias").value_or(false);
  model.output_bias = model.qkv_bias;
  model.mlp_bias = config.boolean("mlp_bias").value_or(false);
  const auto factor = [&](std::string_view key) { return positive_number(config, key, 1.0); };
  model.embedding_scale = static_cast<float>(factor("embedding_multiplier"));
  model.attention_scale = static_cast<float>(factor("attention_multiplier"));
  model.residual_scale = static_cast<float>(factor("residual_multiplier"));
  model.logit_scale = static_cast<float>(1.0 / factor("logits_scaling"));
}

}  // namespace headrace
