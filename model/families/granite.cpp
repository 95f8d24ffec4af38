// Granite 3 (dense): Llama with factors on embeddings, attention, residuals and logits.
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/granite_traits.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"
#include "model/families/write_config_json.h"

namespace headrace {
namespace {

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, {}, {.bos_token_id = 1, .eos_token_id = 2});
  read_granite_traits(config, model);
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  return model;
}

// logit_scale divides, as logits_scaling does (llama.cpp's build of the graph).
ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "granite");
  ModelConfig model = facts_of(
      keys, {.own_keys = {"embedding_scale", "attention.scale", "residual_scale", "logit_scale"}});
  model.embedding_scale = static_cast<float>(keys.positive("embedding_scale", 1.0));
  model.attention_scale = static_cast<float>(keys.number("attention.scale").value_or(0.0));
  model.residual_scale = static_cast<float>(keys.positive("residual_scale", 1.0));
  model.logit_scale = static_cast<float>(1.0 / keys.positive("logit_scale", 1.0));
  model.rope = rope_from_gguf(file, "granite.", model.head_dim, model.max_position_embeddings);
  return model;
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["attention_bias"] = model.qkv_bias;
  config["mlp_bias"] = model.mlp_bias;
  config["embedding_multiplier"] = json_number(model.embedding_scale);
  config["attention_multiplier"] = json_number(attention_scale(model));
  config["residual_multiplier"] = json_number(model.residual_scale);
  config["logits_scaling"] = json_number(1.0F / model.logit_scale);
}

}  // namespace

constexpr Family kGraniteFamily{
    .architecture = "GraniteForCausalLM",
    .model_type = "granite",
    .gguf_architecture = "granite",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .add_to_config_json = add_to_config_json,
    .gguf_tensors = kInterleavedGgufTensors,
};

}  // namespace headrace
