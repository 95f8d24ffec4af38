// GPT-2: learned positions, LayerNorm, biases everywhere, an MLP without gates.
#include <array>
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/gguf_facts.h"
#include "model/families/pages.h"

namespace headrace {
namespace {

void set_shared_traits(ModelConfig& model) {
  model.norm = NormKind::kLayer;
  model.norm_bias = true;
  model.qkv_bias = true;
  model.output_bias = true;
  model.mlp_bias = true;
  model.gated_mlp = false;
  model.learned_positions = true;
}

constexpr ConfigJsonKeys kKeys{.num_layers = "n_layer",
                               .hidden_size = "n_embd",
                               .intermediate_size = "n_inner",
                               .num_heads = "n_head",
                               .num_kv_heads = {},
                               .head_dim = {},
                               .context = "n_positions",
                               .norm_eps = "layer_norm_epsilon",
                               .activation = "activation_function"};

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, kKeys,
                               {.context = 1024,
                                .norm_eps = 1e-5,
                                .activation = Activation::kGeluTanh,
                                .tied_head = true,
                                .bos_token_id = 50256,
                                .eos_token_id = 50256,
                                .widening = 4});
  require_neutral(config, {{"scale_attn_weights", true},
                           {"scale_attn_by_inverse_layer_idx", false},
                           {"add_cross_attention", false}});
  set_shared_traits(model);
  return model;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig model = facts_of(GgufKeys(file, "gpt2"), {.norm = NormKind::kLayer});
  set_shared_traits(model);
  model.activation = Activation::kGeluTanh;
  return model;
}

// Its Conv1D modules hold their weights transposed. Biases are vectors, which are as they are.
constexpr StoredLayout kTransposed{.form = StoredForm::kTransposed};
constexpr std::array kTensors{
    TensorName{"wte", "model.embed_tokens", {}},
    TensorName{"wpe", "model.embed_positions", {}},
    TensorName{"ln_f", "model.norm", {}},
    TensorName{"h.#.ln_1", "model.layers.#.input_layernorm", {}},
    TensorName{"h.#.attn.c_attn",
               "model.layers.#.self_attn.q_proj",
               {FusedPart::kQuery, StoredForm::kTransposed}},
    TensorName{"h.#.attn.c_attn",
               "model.layers.#.self_attn.k_proj",
               {FusedPart::kKey, StoredForm::kTransposed}},
    TensorName{"h.#.attn.c_attn",
               "model.layers.#.self_attn.v_proj",
               {FusedPart::kValue, StoredForm::kTransposed}},
    TensorName{"h.#.attn.c_proj", "model.layers.#.self_attn.o_proj", kTransposed},
    TensorName{"h.#.ln_2", "model.layers.#.post_attention_layernorm", {}},
    TensorName{"h.#.mlp.c_fc", "model.layers.#.mlp.up_proj", kTransposed},
    TensorName{"h.#.mlp.c_proj", "model.layers.#.mlp.down_proj", kTransposed},
};

// Masks that old checkpoints store.
bool ignores_tensor(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["scale_attn_weights"] = true;
  if (model.activation == Activation::kGeluTanh) config["activation_function"] = "gelu_new";
}

}  // namespace

constexpr Family kGpt2Family{
    .architecture = "GPT2LMHeadModel",
    .model_type = "gpt2",
    .gguf_architecture = "gpt2",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .config_keys = kKeys,
    .add_to_config_json = add_to_config_json,
    .hugging_face_tensors = kTensors,
    .hugging_face_prefix = "transformer.",
    .ignores_tensor = ignores_tensor,
};

}  // namespace headrace
