// StarCoder2: LayerNorm, biases everywhere, an MLP without gates, in some sizes a window.
#include <array>
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

constexpr ConfigJsonKeys kKeys{.norm_eps = "norm_epsilon"};

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, kKeys,
                               {.context = 4096,
                                .norm_eps = 1e-5,
                                .activation = Activation::kGeluTanh,
                                .tied_head = true,
                                .bos_token_id = 50256,
                                .eos_token_id = 50256,
                                .one_kv_head_a_head = false});
  model.norm = NormKind::kLayer;
  model.norm_bias = true;
  model.qkv_bias = config.boolean("use_bias").value_or(true);
  model.output_bias = model.qkv_bias;
  model.mlp_bias = model.qkv_bias;
  model.gated_mlp = false;
  window_all_layers(model, sliding_window(config));
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  return model;
}

// llama.cpp neither writes nor honours the window; what another program wrote counts.
ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "starcoder2");
  ModelConfig model =
      facts_of(keys, {.norm = NormKind::kLayer, .own_keys = {"attention.sliding_window"}});
  window_all_layers(model, sliding_window(keys));
  model.activation = Activation::kGeluTanh;
  model.gated_mlp = false;
  model.rope = rope_from_gguf(file, "starcoder2.", model.head_dim, model.max_position_embeddings);
  return model;
}

constexpr std::array kTensors{
    TensorName{"model.layers.#.mlp.c_fc", "model.layers.#.mlp.up_proj", {}},
    TensorName{"model.layers.#.mlp.c_proj", "model.layers.#.mlp.down_proj", {}},
};

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["use_bias"] = model.qkv_bias;
  config["sliding_window"] = model.window > 0 ? nlohmann::ordered_json(model.window) : nullptr;
}

}  // namespace

constexpr Family kStarCoder2Family{
    .architecture = "Starcoder2ForCausalLM",
    .model_type = "starcoder2",
    .gguf_architecture = "starcoder2",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .config_keys = kKeys,
    .add_to_config_json = add_to_config_json,
    .hugging_face_tensors = kTensors,
};

}  // namespace headrace
