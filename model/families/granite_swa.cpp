// Granite with sinks, windows in most layers, and a theta of each layer's own. Not in GGUF.
#include <fmt/format.h>

#include <optional>
#include <vector>

#include "model/families/config_json_facts.h"
#include "model/families/granite_traits.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

constexpr int kPattern = 4;  // of layers the first, fifth and so on see everything

// layer_rope_theta has a number for each layer, 0 where it has no RoPE. The decoder has one theta
// for layers with a window and one for those without.
void read_layer_thetas(const JsonObject& config, ModelConfig& model) {
  constexpr std::string_view kKey = "layer_rope_theta";
  const std::optional<std::vector<double>> thetas = config.numbers(kKey);
  if (!thetas) return;
  if (std::ssize(*thetas) != model.num_layers) {
    config.refuse(kKey,
                  fmt::format("one number for each of {} layers is accepted", model.num_layers));
  }
  std::optional<double> of_kind[2];  // without a window, with one
  for (std::size_t i = 0; i < thetas->size(); ++i) {
    LayerTraits& layer = model.layers[i];
    const double theta = (*thetas)[i];
    layer.rope = theta != 0.0;
    if (!layer.rope) continue;
    if (theta <= 1.0) config.refuse(kKey, "numbers above 1, or 0 for none, are accepted");
    std::optional<double>& known = of_kind[layer.windowed ? 1 : 0];
    if (known.value_or(theta) != theta) {
      config.refuse(kKey,
                    "besides 0, one number for all layers with a window and one for all "
                    "others are supported");
    }
    known = theta;
  }
  const auto& [full, windowed] = of_kind;
  if (!full && !windowed) return;
  model.rope.theta = full ? *full : *windowed;
  if (!windowed || *windowed == model.rope.theta) return;
  model.window_rope = model.rope;
  model.window_rope->theta = *windowed;
}

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, {},
                               {.context = 8192,
                                .norm_eps = 1e-5,
                                .tied_head = true,
                                .bos_token_id = 100257,
                                .eos_token_id = 100257});
  read_granite_traits(config, model);
  model.attention_sinks = true;
  model.window = sliding_window(config, 128);
  read_windows(config, model, [](int layer) { return layer % kPattern != 0; });
  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  read_layer_thetas(config, model);
  return model;
}

}  // namespace

constexpr Family kGraniteSwaFamily{
    .architecture = "GraniteSWAForCausalLM",
    .model_type = "granite_swa",
    .gguf_architecture = {},
    .from_config_json = from_config_json,
    .from_gguf = nullptr,
};

}  // namespace headrace
