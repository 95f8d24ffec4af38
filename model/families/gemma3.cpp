// Gemma 3, text only: Gemma 2 without caps, with a norm over each query and key head, and with
// another RoPE in the layers that have a window, five out of six.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/family_limits.h"
#include "model/families/gemma_tensors.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

constexpr double kGlobalTheta = 1e6;
constexpr double kWindowTheta = 1e4;
constexpr int kPattern = 6;  // every sixth layer sees everything

void set_shared_traits(ModelConfig& model) {
  model.post_norms = true;
  model.qk_norm = QkNorm::kHead;
  model.embedding_scale = std::sqrt(static_cast<float>(model.hidden_size));
}

constexpr ConfigJsonKeys kKeys{.activation = "hidden_activation"};

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, kKeys,
                               {.context = 131072,
                                .activation = Activation::kGeluTanh,
                                .tied_head = true,
                                .bos_token_id = 2,
                                .eos_token_id = 1,
                                .head_dim = 256,
                                .one_kv_head_a_head = false});
  require_neutral(config, {{"use_bidirectional_attention", false}});
  if (config.has("attn_logit_softcapping")) {
    config.refuse("attn_logit_softcapping", "only null is supported");
  }
  set_shared_traits(model);
  model.qkv_bias = config.boolean("attention_bias").value_or(false);
  model.output_bias = model.qkv_bias;
  model.attention_scale =
      static_cast<float>(1.0 / std::sqrt(positive_number(config, "query_pre_attn_scalar", 256.0)));
  model.logit_soft_cap = soft_cap(config, "final_logit_softcapping", 0.0F);
  const auto pattern = config.integer("sliding_window_pattern", kLayers).value_or(kPattern);
  model.window = sliding_window(config, 4096);
  read_windows(config, model, [&](int layer) { return (layer + 1) % pattern != 0; });
  model.rope = rope_of_layer_type(
      config, model,
      {.layer_type = "full_attention", .scaled = true, .defaults = {.theta = kGlobalTheta}});
  model.window_rope = rope_of_layer_type(
      config, model,
      {.layer_type = "sliding_attention",
       .defaults = {.theta_key = "rope_local_base_freq", .theta = kWindowTheta}});
  return model;
}

ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "gemma3");
  ModelConfig model =
      facts_of(keys, {.own_keys = {"attention.sliding_window", "attention.sliding_window_pattern",
                                   "final_logit_softcapping"}});
  set_shared_traits(model);
  model.activation = Activation::kGeluTanh;
  if (const auto cap = keys.number("final_logit_softcapping")) {
    model.logit_soft_cap = static_cast<float>(keys.positive("final_logit_softcapping", *cap));
  }
  // The 27B model, known by its 62 layers, scales by hidden_size / heads; GGUF has no key for it.
  if (model.num_layers == 62) {
    model.attention_scale = 1.0F / std::sqrt(static_cast<float>(model.hidden_size) /
                                             static_cast<float>(model.num_heads));
  }
  model.window = keys.required_integer("attention.sliding_window", kContext);
  const int pattern = keys.integer("attention.sliding_window_pattern", kLayers).value_or(kPattern);
  model.layers.resize(static_cast<std::size_t>(model.num_layers));
  for (int i = 0; i < model.num_layers; ++i) {
    model.layers[static_cast<std::size_t>(i)].windowed = (i + 1) % pattern != 0;
  }
  model.rope = rope_from_gguf(file, "gemma3.", model.head_dim, model.max_position_embeddings);
  RopeConfig window_rope;
  window_rope.theta = keys.positive("rope.freq_base_swa", kWindowTheta);
  window_rope.rotary_dim = model.rope.rotary_dim;
  model.window_rope = window_rope;
  return model;
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  add_gemma_traits(model, config);
  if (model.window_rope) config["rope_local_base_freq"] = model.window_rope->theta;
}

}  // namespace

constexpr Family kGemma3Family{
    .architecture = "Gemma3ForCausalLM",
    .model_type = "gemma3_text",
    .gguf_architecture = "gemma3",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .config_keys = kKeys,
    .add_to_config_json = add_to_config_json,
    .hugging_face_tensors = kGemmaTensors,
};

}  // namespace headrace
