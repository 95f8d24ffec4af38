// Llama 1 to 3 and the many models of other names that are built the same way (SmolLM2, TinyLlama,
// Yi). GGUF also calls Mistral "llama".
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

#include "model/families/config_json_facts.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, {}, {.bos_token_id = 1, .eos_token_id = 2});
  model.qkv_bias = config.boolean("attention_bias").value_or(false);
  model.output_bias = model.qkv_bias;
  model.mlp_bias = config.boolean("mlp_bias").value_or(false);
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  if (model.rope.rotary_dim != model.head_dim) {
    throw std::invalid_argument(fmt::format(
        "{}: partial_rotary_factor is below 1; Llama models turn whole heads", config.source()));
  }
  return model;
}

// Mistral's window: llama.cpp's converter writes none and its "llama" honours none; where another
// program wrote one, it is what config.json's would be.
ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "llama");
  ModelConfig model = facts_of(keys, {.own_keys = {"attention.sliding_window"}});
  window_all_layers(model, sliding_window(keys));
  model.rope = rope_from_gguf(file, "llama.", model.head_dim, model.max_position_embeddings);
  require_whole_heads(keys, model, "Llama");
  return model;
}

// Inverse frequencies that old checkpoints store; they follow from the configuration.
bool ignores_tensor(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq") || name.ends_with(".attn_rot_embd.weight");
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["attention_bias"] = model.qkv_bias;
  config["mlp_bias"] = model.mlp_bias;
}

}  // namespace

constexpr Family kLlamaFamily{
    .architecture = "LlamaForCausalLM",
    .model_type = "llama",
    .gguf_architecture = "llama",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .add_to_config_json = add_to_config_json,
    .gguf_tensors = kInterleavedGgufTensors,
    .ignores_tensor = ignores_tensor,
};

}  // namespace headrace
