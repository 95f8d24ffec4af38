// Phi-3 and Phi-4-mini: Llama with fused products, RoPE over a part of each head, and for long
// contexts two sets of frequencies.
#include <array>
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/family_limits.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(
      config, {}, {.context = 4096, .norm_eps = 1e-5, .bos_token_id = 1, .eos_token_id = 32000});
  require_neutral(config,
                  {{"attention_bias", false}, {"mlp_bias", false}, {"lm_head_bias", false}});
  window_all_layers(model, sliding_window(config));
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings,
                                     {.original_context = 4096});
  return model;
}

// The divisors come as tensors, which opening reads.
ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "phi3");
  ModelConfig model = facts_of(keys, {.own_keys = {"attention.sliding_window"}});
  window_all_layers(model, sliding_window(keys));
  model.rope = rope_from_gguf(file, "phi3.", model.head_dim, model.max_position_embeddings);
  if (keys.tensor(kGgufLongDivisors) != nullptr) {
    model.rope.scaling = RopeConfig::Scaling::kLong;
    model.rope.original_max_position_embeddings =
        keys.required_integer("rope.scaling.original_context_length", kContext);
    model.rope.attention_factor = keys.positive("rope.scaling.attn_factor", 1.0);
  }
  return model;
}

constexpr std::array kTensors{
    TensorName{"model.layers.#.self_attn.qkv_proj",
               "model.layers.#.self_attn.q_proj",
               {FusedPart::kQuery}},
    TensorName{
        "model.layers.#.self_attn.qkv_proj", "model.layers.#.self_attn.k_proj", {FusedPart::kKey}},
    TensorName{"model.layers.#.self_attn.qkv_proj",
               "model.layers.#.self_attn.v_proj",
               {FusedPart::kValue}},
    TensorName{
        "model.layers.#.mlp.gate_up_proj", "model.layers.#.mlp.gate_proj", {FusedPart::kGate}},
    TensorName{"model.layers.#.mlp.gate_up_proj", "model.layers.#.mlp.up_proj", {FusedPart::kUp}},
};

// llama.cpp calls the fused gates and ups "ffn_up".
constexpr std::array kGgufTensors{
    TensorName{"blk.#.ffn_up", "model.layers.#.mlp.gate_proj", {FusedPart::kGate}},
    TensorName{"blk.#.ffn_up", "model.layers.#.mlp.up_proj", {FusedPart::kUp}},
};

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["sliding_window"] = model.window > 0 ? nlohmann::ordered_json(model.window) : nullptr;
}

}  // namespace

constexpr Family kPhi3Family{
    .architecture = "Phi3ForCausalLM",
    .model_type = "phi3",
    .gguf_architecture = "phi3",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .add_to_config_json = add_to_config_json,
    .hugging_face_tensors = kTensors,
    .gguf_tensors = kGgufTensors,
};

}  // namespace headrace
