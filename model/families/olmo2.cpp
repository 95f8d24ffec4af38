// OLMo 2: Llama with norms after attention and MLP instead of before, and norms over all queries
// and over all keys of a token.
#include <array>
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

void set_shared_traits(ModelConfig& model) {
  model.pre_norms = false;
  model.post_norms = true;
  model.qk_norm = QkNorm::kProjection;
}

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, {}, {.norm_eps = 1e-5, .eos_token_id = 50279});
  set_shared_traits(model);
  model.qkv_bias = config.boolean("attention_bias").value_or(false);
  model.output_bias = model.qkv_bias;
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  return model;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig model = facts_of(GgufKeys(file, "olmo2"), {});
  set_shared_traits(model);
  model.rope = rope_from_gguf(file, "olmo2.", model.head_dim, model.max_position_embeddings);
  return model;
}

constexpr std::array kTensors{
    TensorName{"model.layers.#.post_attention_layernorm", "model.layers.#.self_attn.post_norm", {}},
    TensorName{"model.layers.#.post_feedforward_layernorm", "model.layers.#.mlp.post_norm", {}},
};

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["attention_bias"] = model.qkv_bias;
}

}  // namespace

constexpr Family kOlmo2Family{
    .architecture = "Olmo2ForCausalLM",
    .model_type = "olmo2",
    .gguf_architecture = "olmo2",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .add_to_config_json = add_to_config_json,
    .hugging_face_tensors = kTensors,
};

}  // namespace headrace
