// SmolLM3: Llama with layers that have no RoPE.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/families/config_json_facts.h"
#include "model/families/family_limits.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

// Every fourth layer, unless a directory says otherwise; GGUF has no key for it.
constexpr int kInterval = 4;

void set_rope_layers(ModelConfig& model, int interval) {
  model.layers.resize(static_cast<std::size_t>(model.num_layers));
  for (int i = 0; i < model.num_layers; ++i) {
    model.layers[static_cast<std::size_t>(i)].rope = (i + 1) % interval != 0;
  }
}

// no_rope_layers has, in spite of its name, a 1 for each layer with RoPE.
void read_rope_layers(const JsonObject& config, ModelConfig& model) {
  constexpr std::string_view kKey = "no_rope_layers";
  const auto flags = config.integers(kKey, {0, 1});
  if (!flags) {
    set_rope_layers(
        model,
        static_cast<int>(config.integer("no_rope_layer_interval", kLayers).value_or(kInterval)));
    return;
  }
  if (std::ssize(*flags) != model.num_layers) {
    config.refuse(kKey, fmt::format("0 or 1 for each of {} layers is accepted", model.num_layers));
  }
  model.layers.resize(flags->size());
  for (std::size_t i = 0; i < flags->size(); ++i) model.layers[i].rope = (*flags)[i] == 1;
}

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, {},
                               {.context = 32768,
                                .tied_head = true,
                                .bos_token_id = 128000,
                                .eos_token_id = 128001,
                                .one_kv_head_a_head = false});
  model.qkv_bias = config.boolean("attention_bias").value_or(false);
  model.output_bias = model.qkv_bias;
  model.mlp_bias = config.boolean("mlp_bias").value_or(false);
  read_rope_layers(config, model);
  read_windows_in_use(config, model, [&](int layer) { return !model.layer(layer).rope; });
  model.rope =
      rope_from_config_json(config, model.head_dim, model.max_position_embeddings, {.theta = 2e6});
  return model;
}

ModelConfig from_gguf(const GgufFile& file) {
  ModelConfig model = facts_of(GgufKeys(file, "smollm3"), {});
  set_rope_layers(model, kInterval);
  model.rope = rope_from_gguf(file, "smollm3.", model.head_dim, model.max_position_embeddings);
  return model;
}

void add_to_config_json(const ModelConfig& model, nlohmann::ordered_json& config) {
  config["attention_bias"] = model.qkv_bias;
  config["mlp_bias"] = model.mlp_bias;
  config["use_sliding_window"] = model.window > 0;
  for (int i = 0; i < model.num_layers; ++i) {
    config["no_rope_layers"].push_back(model.layer(i).rope ? 1 : 0);
  }
}

}  // namespace

constexpr Family kSmolLm3Family{
    .architecture = "SmolLM3ForCausalLM",
    .model_type = "smollm3",
    .gguf_architecture = "smollm3",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .add_to_config_json = add_to_config_json,
    .gguf_tensors = kInterleavedGgufTensors,
};

}  // namespace headrace
