// Mistral: Llama with a window over all layers in its first version. GGUF calls it "llama".

#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(
      config, {},
      {.context = 131072, .bos_token_id = 1, .eos_token_id = 2, .one_kv_head_a_head = false});
  if (config.has("layer_types")) {
    config.refuse("layer_types", "all layers of Mistral models are alike");
  }
  window_all_layers(model, sliding_window(config, 4096));
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  return model;
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["sliding_window"] = model.window > 0 ? nlohmann::ordered_json(model.window) : nullptr;
}

}  // namespace

constexpr Family kMistralFamily{
    .architecture = "MistralForCausalLM",
    .model_type = "mistral",
    .gguf_architecture = {},
    .from_config_json = from_config_json,
    .from_gguf = nullptr,
    .add_to_config_json = add_to_config_json,
};

}  // namespace headrace
