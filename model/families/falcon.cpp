// Falcon: attention and MLP side by side, LayerNorm, an MLP without gates; one KV head, or with the
// "new decoder architecture" several, and then a norm of its own for the MLP.
#include <array>

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

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config,
                               {.intermediate_size = "ffn_hidden_size",
                                .num_kv_heads = "num_kv_heads",
                                .head_dim = {},
                                .norm_eps = "layer_norm_epsilon",
                                .activation = "activation"},
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

// llama.cpp's falcon is always parallel, and writes the two norms of the larger sizes under names
// that the smaller ones have for something else.
ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "falcon");
  if (keys.tensor("blk.0.attn_norm_2.weight") != nullptr) {
    keys.refuse(
        "tensor blk.0.attn_norm_2.weight is there; Falcon with two norms a layer is supported as a "
        "directory");
  }
  ModelConfig model = facts_of(keys, {.norm = NormKind::kLayer});
  set_shared_traits(model);
  model.activation = Activation::kGeluErf;
  model.parallel_residual = true;
  model.shared_pre_norm = true;
  model.rope = rope_from_gguf(file, "falcon.", model.head_dim, model.max_position_embeddings);
  return model;
}

constexpr std::array kTensors{
    TensorName{"word_embeddings", "model.embed_tokens", {}},
    TensorName{"ln_f", "model.norm", {}},
    TensorName{"h.#.input_layernorm", "model.layers.#.input_layernorm", {}},
    TensorName{"h.#.ln_attn", "model.layers.#.input_layernorm", {}},
    TensorName{"h.#.ln_mlp", "model.layers.#.post_attention_layernorm", {}},
    TensorName{"h.#.post_attention_layernorm", "model.layers.#.post_attention_layernorm", {}},
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

bool ignores_tensor(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace

constexpr Family kFalconFamily{
    .architecture = "FalconForCausalLM",
    .model_type = "falcon",
    .gguf_architecture = "falcon",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .hugging_face_tensors = kTensors,
    .hugging_face_prefix = "transformer.",
    .ignores_tensor = ignores_tensor,
};

}  // namespace headrace
