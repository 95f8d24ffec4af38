// Falcon: attention and MLP side by side, LayerNorm, an MLP without gates; one KV head, or with the
// "new decoder architecture" several, and then a norm of its own for the MLP.
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
  model.gated_mlp = false;
}

// What num_kv_heads says counts only with the new architecture.
int num_kv_heads(const JsonObject& config, const ModelConfig& model, bool new_architecture) {
  if (new_architecture) return model.num_kv_heads;
  return config.boolean("multi_query").value_or(true) ? 1 : model.num_heads;
}

// One norm before both, or one for each.
bool has_shared_norm(const JsonObject& config, bool new_architecture) {
  constexpr std::string_view kKey = "num_ln_in_parallel_attn";
  const auto given = config.integer(kKey, {1, 2});
  if (!new_architecture && given.value_or(1) != 1) {
    config.refuse(kKey, "2 needs new_decoder_architecture");
  }
  return given.value_or(new_architecture ? 2 : 1) == 1;
}

constexpr ConfigJsonKeys kKeys{.intermediate_size = "ffn_hidden_size",
                               .num_kv_heads = "num_kv_heads",
                               .head_dim = {},
                               .norm_eps = "layer_norm_epsilon",
                               .activation = "activation"};

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, kKeys,
                               {.norm_eps = 1e-5,
                                .activation = Activation::kGeluErf,
                                .tied_head = true,
                                .bos_token_id = 11,
                                .eos_token_id = 11,
                                .widening = 4});
  require_neutral(config, {{"alibi", false}});
  set_shared_traits(model);
  const bool new_architecture = config.boolean("new_decoder_architecture").value_or(false);
  model.num_kv_heads = num_kv_heads(config, model, new_architecture);
  model.qkv_bias = config.boolean("bias").value_or(false);
  model.output_bias = model.qkv_bias;
  model.mlp_bias = model.qkv_bias;
  model.parallel_residual = config.boolean("parallel_attn").value_or(true);
  if (new_architecture && !model.parallel_residual) {
    config.refuse("parallel_attn", "new_decoder_architecture needs true");
  }
  model.shared_pre_norm = model.parallel_residual && has_shared_norm(config, new_architecture);
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  return model;
}

// llama.cpp's falcon is always parallel.
ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "falcon");
  ModelConfig model = facts_of(keys, {.norm = NormKind::kLayer});
  set_shared_traits(model);
  model.activation = Activation::kGeluErf;
  model.parallel_residual = true;
  model.shared_pre_norm = keys.tensor("blk.0.attn_norm_2.weight") == nullptr;
  model.rope = rope_from_gguf(file, "falcon.", model.head_dim, model.max_position_embeddings);
  return model;
}

bool has_two_parallel_norms(const ModelConfig& model) {
  return model.parallel_residual && !model.shared_pre_norm;
}
bool has_other_norms(const ModelConfig& model) {
  return !has_two_parallel_norms(model);
}

constexpr std::array kTensors{
    TensorName{"word_embeddings", "model.embed_tokens", {}},
    TensorName{"ln_f", "model.norm", {}},
    TensorName{"h.#.ln_attn", "model.layers.#.input_layernorm", {}, has_two_parallel_norms},
    TensorName{"h.#.ln_mlp", "model.layers.#.post_attention_layernorm", {}, has_two_parallel_norms},
    TensorName{"h.#.input_layernorm", "model.layers.#.input_layernorm", {}, has_other_norms},
    TensorName{"h.#.post_attention_layernorm",
               "model.layers.#.post_attention_layernorm",
               {},
               has_other_norms},
    TensorName{"h.#.self_attention.query_key_value",
               "model.layers.#.self_attn.q_proj",
               {FusedPart::kQuery, StoredForm::kHeadGroups}},
    TensorName{"h.#.self_attention.query_key_value",
               "model.layers.#.self_attn.k_proj",
               {FusedPart::kKey, StoredForm::kHeadGroups}},
    TensorName{"h.#.self_attention.query_key_value",
               "model.layers.#.self_attn.v_proj",
               {FusedPart::kValue, StoredForm::kHeadGroups}},
    TensorName{"h.#.self_attention.dense", "model.layers.#.self_attn.o_proj", {}},
    TensorName{"h.#.mlp.dense_h_to_4h", "model.layers.#.mlp.up_proj", {}},
    TensorName{"h.#.mlp.dense_4h_to_h", "model.layers.#.mlp.down_proj", {}},
};

// What is the only norm elsewhere is the MLP's where there are two (gguf's tensor map).
constexpr std::array kGgufTensors{
    TensorName{
        "blk.#.attn_norm", "model.layers.#.post_attention_layernorm", {}, has_two_parallel_norms},
    TensorName{"blk.#.attn_norm_2", "model.layers.#.input_layernorm", {}, has_two_parallel_norms},
};

bool ignores_tensor(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  const bool new_architecture = model.num_kv_heads > 1 || has_two_parallel_norms(model);
  config["alibi"] = false;
  config["new_decoder_architecture"] = new_architecture;
  config["multi_query"] = !new_architecture;
  config["parallel_attn"] = model.parallel_residual;
  config["bias"] = model.qkv_bias;
  if (new_architecture) config["num_ln_in_parallel_attn"] = model.shared_pre_norm ? 1 : 2;
}

}  // namespace

constexpr Family kFalconFamily{
    .architecture = "FalconForCausalLM",
    .model_type = "falcon",
    .gguf_architecture = "falcon",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .config_keys = kKeys,
    .add_to_config_json = add_to_config_json,
    .hugging_face_tensors = kTensors,
    .hugging_face_prefix = "transformer.",
    .gguf_tensors = kGgufTensors,
    .ignores_tensor = ignores_tensor,
};

}  // namespace headrace
