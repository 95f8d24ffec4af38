// Qwen 2 and 2.5: Llama with biases on queries, keys and values, and windows from some layer on.
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, {}, {.context = 32768, .one_kv_head_a_head = false});
  model.qkv_bias = true;
  read_windows_from_a_layer_on(config, model);
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  return model;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig model = facts_of(GgufKeys(file, "qwen2"), {});
  model.rope = rope_from_gguf(file, "qwen2.", model.head_dim, model.max_position_embeddings);
  return model;
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["use_sliding_window"] = model.window > 0;
}

}  // namespace

constexpr Family kQwen2Family{
    .architecture = "Qwen2ForCausalLM",
    .model_type = "qwen2",
    .gguf_architecture = "qwen2",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .add_to_config_json = add_to_config_json,
};

}  // namespace headrace
