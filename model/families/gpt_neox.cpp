// GPT-NeoX and Pythia: attention and MLP side by side, LayerNorm, RoPE over a part of each head.
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
  model.norm = NormKind::kLayer;
  model.norm_bias = true;
  model.mlp_bias = true;
  model.gated_mlp = false;
}

constexpr ConfigJsonKeys kKeys{.num_kv_heads = {}, .head_dim = {}, .norm_eps = "layer_norm_eps"};

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(
      config, kKeys,
      {.norm_eps = 1e-5, .activation = Activation::kGeluErf, .bos_token_id = 0, .eos_token_id = 2});
  set_shared_traits(model);
  model.qkv_bias = config.boolean("attention_bias").value_or(true);
  model.output_bias = model.qkv_bias;
  model.parallel_residual = config.boolean("use_parallel_residual").value_or(true);
  model.rope = rope_from_config_json(
      config, model.head_dim, model.max_position_embeddings,
      {.theta_key = "rotary_emb_base", .share_key = "rotary_pct", .share = 0.25});
  return model;
}

ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "gptneox");
  ModelConfig model = facts_of(keys, {.norm = NormKind::kLayer});
  set_shared_traits(model);
  model.activation = Activation::kGeluErf;
  model.parallel_residual = keys.boolean("use_parallel_residual", true);
  model.rope = rope_from_gguf(file, "gptneox.", model.head_dim, model.max_position_embeddings);
  return model;
}

constexpr std::array kTensors{
    TensorName{"embed_in", "model.embed_tokens", {}},
    TensorName{"final_layer_norm", "model.norm", {}},
    TensorName{"embed_out", "lm_head", {}},
    TensorName{"layers.#.input_layernorm", "model.layers.#.input_layernorm", {}},
    TensorName{"layers.#.attention.query_key_value",
               "model.layers.#.self_attn.q_proj",
               {FusedPart::kQuery, StoredForm::kHeadGroups}},
    TensorName{"layers.#.attention.query_key_value",
               "model.layers.#.self_attn.k_proj",
               {FusedPart::kKey, StoredForm::kHeadGroups}},
    TensorName{"layers.#.attention.query_key_value",
               "model.layers.#.self_attn.v_proj",
               {FusedPart::kValue, StoredForm::kHeadGroups}},
    TensorName{"layers.#.attention.dense", "model.layers.#.self_attn.o_proj", {}},
    TensorName{"layers.#.post_attention_layernorm", "model.layers.#.post_attention_layernorm", {}},
    TensorName{"layers.#.mlp.dense_h_to_4h", "model.layers.#.mlp.up_proj", {}},
    TensorName{"layers.#.mlp.dense_4h_to_h", "model.layers.#.mlp.down_proj", {}},
};

// Masks and inverse frequencies that old checkpoints store.
bool ignores_tensor(std::string_view name) {
  return name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["use_parallel_residual"] = model.parallel_residual;
  config["attention_bias"] = model.qkv_bias;
  config["rotary_emb_base"] = config["rope_theta"];
  config["rotary_pct"] = config["partial_rotary_factor"];
}

}  // namespace

constexpr Family kGptNeoXFamily{
    .architecture = "GPTNeoXForCausalLM",
    .model_type = "gpt_neox",
    .gguf_architecture = "gptneox",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .config_keys = kKeys,
    .add_to_config_json = add_to_config_json,
    .hugging_face_tensors = kTensors,
    .hugging_face_prefix = "gpt_neox.",
    .ignores_tensor = ignores_tensor,
};

}  // namespace headrace
