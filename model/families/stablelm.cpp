// StableLM: Llama with LayerNorm, RoPE over a part of each head, and in some sizes attention and
// MLP side by side behind one norm, and a norm for each head of queries and keys.
#include <array>
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

constexpr ConfigJsonKeys kKeys{.norm_eps = "layer_norm_eps"};

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, kKeys,
                               {.context = 4096,
                                .norm_eps = 1e-5,
                                .bos_token_id = 0,
                                .eos_token_id = 0,
                                .one_kv_head_a_head = false});
  model.norm = NormKind::kLayer;
  model.norm_bias = true;
  model.qkv_bias = config.boolean("use_qkv_bias").value_or(false);
  if (config.boolean("qk_layernorm").value_or(false)) model.qk_norm = QkNorm::kOwnHead;
  model.parallel_residual = config.boolean("use_parallel_residual").value_or(false);
  model.shared_pre_norm = model.parallel_residual;
  model.rope =
      rope_from_config_json(config, model.head_dim, model.max_position_embeddings, {.share = 0.25});
  return model;
}

// llama.cpp goes by the norms that are there: the parallel form has none for the MLP.
ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "stablelm");
  ModelConfig model = facts_of(keys, {.norm = NormKind::kLayer});
  model.parallel_residual = keys.tensor("blk.0.ffn_norm.weight") == nullptr;
  model.shared_pre_norm = model.parallel_residual;
  if (keys.tensor("blk.0.attn_q_norm.weight") != nullptr) model.qk_norm = QkNorm::kOwnHead;
  model.rope = rope_from_gguf(file, "stablelm.", model.head_dim, model.max_position_embeddings);
  return model;
}

// A tensor a head.
constexpr std::array kTensors{
    TensorName{
        "model.layers.#.self_attn.q_layernorm.norms.#", "model.layers.#.self_attn.q_norm", {}},
    TensorName{
        "model.layers.#.self_attn.k_layernorm.norms.#", "model.layers.#.self_attn.k_norm", {}},
};

// llama.cpp's converter stacks them (StableLMModel._stack_qk_norm).
constexpr StoredLayout kStacked{.form = StoredForm::kVectorInRows};
constexpr std::array kGgufTensors{
    TensorName{"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm", kStacked},
    TensorName{"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm", kStacked},
};

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["use_qkv_bias"] = model.qkv_bias;
  config["use_parallel_residual"] = model.parallel_residual;
  config["qk_layernorm"] = model.qk_norm == QkNorm::kOwnHead;
}

}  // namespace

constexpr Family kStableLmFamily{
    .architecture = "StableLmForCausalLM",
    .model_type = "stablelm",
    .gguf_architecture = "stablelm",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .config_keys = kKeys,
    .add_to_config_json = add_to_config_json,
    .hugging_face_tensors = kTensors,
    .gguf_tensors = kGgufTensors,
};

}  // namespace headrace
