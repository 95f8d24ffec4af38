// Gemma 2: scaled embeddings, norms before and after attention and MLP, soft caps, and a window in
// every other layer.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/gemma_tensors.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"
#include "model/families/write_config_json.h"

namespace headrace {
namespace {

// The first layer has a window, the second has none.
bool is_windowed(int layer) {
  return layer % 2 == 0;
}

void set_shared_traits(ModelConfig& model) {
  model.post_norms = true;
  model.embedding_scale = std::sqrt(static_cast<float>(model.hidden_size));
}

constexpr ConfigJsonKeys kKeys{.activation = "hidden_activation"};

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, kKeys,
                               {.context = 8192,
                                .activation = Activation::kGeluTanh,
                                .tied_head = true,
                                .bos_token_id = 2,
                                .eos_token_id = 1,
                                .head_dim = 256,
                                .one_kv_head_a_head = false});
  require_neutral(config, {{"use_bidirectional_attention", false}});
  set_shared_traits(model);
  model.qkv_bias = config.boolean("attention_bias").value_or(false);
  model.output_bias = model.qkv_bias;
  model.attention_scale =
      static_cast<float>(1.0 / std::sqrt(positive_number(config, "query_pre_attn_scalar", 256.0)));
  model.attention_soft_cap = soft_cap(config, "attn_logit_softcapping", 50.0F);
  model.logit_soft_cap = soft_cap(config, "final_logit_softcapping", 30.0F);
  model.window = sliding_window(config, 4096);
  read_windows(config, model, is_windowed);
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  return model;
}

ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "gemma2");
  ModelConfig model =
      facts_of(keys, {.own_keys = {"attention.sliding_window", "attn_logit_softcapping",
                                   "final_logit_softcapping"}});
  set_shared_traits(model);
  model.activation = Activation::kGeluTanh;
  model.attention_soft_cap = static_cast<float>(keys.positive("attn_logit_softcapping", 50.0));
  model.logit_soft_cap = static_cast<float>(keys.positive("final_logit_softcapping", 30.0));
  // The 27B model, known by its 46 layers, scales by hidden_size / heads; GGUF has no key for it.
  if (model.num_layers == 46) {
    model.attention_scale = 1.0F / std::sqrt(static_cast<float>(model.hidden_size) /
                                             static_cast<float>(model.num_heads));
  }
  model.window = sliding_window(keys);
  if (model.window == 0) model.window = 4096;
  model.layers.resize(static_cast<std::size_t>(model.num_layers));
  for (int i = 0; i < model.num_layers; ++i) {
    model.layers[static_cast<std::size_t>(i)].windowed = is_windowed(i);
  }
  model.rope = rope_from_gguf(file, "gemma2.", model.head_dim, model.max_position_embeddings);
  return model;
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  add_gemma_traits(model, config);
}

}  // namespace

void add_gemma_traits(const ModelConfig& model, nlohmann::ordered_json& config) {
  const auto cap = [](float value) {
    return value > 0.0F ? json_number(value) : nlohmann::ordered_json(nullptr);
  };
  const float scale = attention_scale(model);
  // A whole number in every model, as transformers insists.
  config["query_pre_attn_scalar"] = std::lround(1.0F / (scale * scale));
  config["attention_bias"] = model.qkv_bias;
  config["attn_logit_softcapping"] = cap(model.attention_soft_cap);
  config["final_logit_softcapping"] = cap(model.logit_soft_cap);
  config["sliding_window"] = model.window;
  for (int i = 0; i < model.num_layers; ++i) {
    config["layer_types"].push_back(model.layer(i).windowed ? "sliding_attention"
                                                            : "full_attention");
  }
}

constexpr Family kGemma2Family{
    .architecture = "Gemma2ForCausalLM",
    .model_type = "gemma2",
    .gguf_architecture = "gemma2",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .config_keys = kKeys,
    .add_to_config_json = add_to_config_json,
    .hugging_face_tensors = kGemmaTensors,
};

}  // namespace headrace
