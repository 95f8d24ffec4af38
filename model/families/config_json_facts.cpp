#include "model/families/config_json_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "model/families/family_limits.h"

namespace headrace {
namespace {

// transformers' names of the activations that the decoder has.
struct ActivationName {
  std::string_view name;
  Activation activation;
};
constexpr std::array kActivationNames{
    ActivationName{"silu", Activation::kSilu},
    ActivationName{"swish", Activation::kSilu},
    ActivationName{"gelu", Activation::kGeluErf},
    ActivationName{"gelu_new", Activation::kGeluTanh},
    ActivationName{"gelu_fast", Activation::kGeluTanh},
    ActivationName{"gelu_pytorch_tanh", Activation::kGeluTanh},
};

Activation activation_of(const JsonObject& config, std::string_view key, Activation otherwise) {
  const std::optional<std::string> name = config.text(key);
  if (!name) return otherwise;
  const auto* found =
      std::find_if(kActivationNames.begin(), kActivationNames.end(),
                   [&](const ActivationName& known) { return known.name == *name; });
  if (found == kActivationNames.end()) {
    std::vector<std::string_view> names;
    names.reserve(kActivationNames.size());
    for (const ActivationName& known : kActivationNames) names.push_back(known.name);
    config.refuse(key, fmt::format("supported: {}", fmt::join(names, ", ")));
  }
  return found->activation;
}

// One id or several; none where the file says null, the default where it says nothing.
std::vector<TokenId> token_ids(const JsonObject& config, std::string_view key,
                               std::optional<TokenId> otherwise) {
  std::vector<TokenId> ids;
  const auto given = config.integers(key, kTokenId);
  if (!given && !config.is_null(key) && otherwise) ids.push_back(*otherwise);
  for (const std::int64_t id : given.value_or(std::vector<std::int64_t>{})) {
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

void read_heads(const JsonObject& config, const ConfigJsonKeys& keys,
                const ConfigJsonDefaults& defaults, ModelConfig& model) {
  model.num_heads = static_cast<int>(config.required_integer(keys.num_heads, kHeads));
  model.num_kv_heads = model.num_heads;
  if (!keys.num_kv_heads.empty()) {
    const auto given = defaults.one_kv_head_a_head
                           ? config.integer(keys.num_kv_heads, kHeads)
                           : config.required_integer(keys.num_kv_heads, kHeads);
    model.num_kv_heads = static_cast<int>(given.value_or(model.num_heads));
  }
  model.head_dim = defaults.head_dim;
  if (!keys.head_dim.empty() && config.has(keys.head_dim)) {
    model.head_dim = static_cast<int>(config.required_integer(keys.head_dim, kHeadDim));
  }
  const std::string problem =
      settle_heads(model, {keys.hidden_size, keys.num_heads, keys.num_kv_heads, "head_dim"});
  if (!problem.empty()) {
    throw std::invalid_argument(fmt::format("{}: {}", config.source(), problem));
  }
}

int intermediate_size(const JsonObject& config, const ConfigJsonKeys& keys, int widening,
                      int hidden_size) {
  if (widening == 0) {
    return static_cast<int>(config.required_integer(keys.intermediate_size, kWidth));
  }
  const std::int64_t otherwise =
      std::min(std::int64_t{widening} * hidden_size, kWidth.most);  // a longer one is refused later
  return static_cast<int>(config.integer(keys.intermediate_size, kWidth).value_or(otherwise));
}

// Which layers layer_types calls windowed; nullopt where the file does not say.
std::optional<std::vector<bool>> windowed_layers(const JsonObject& config, int num_layers) {
  constexpr std::string_view kKey = "layer_types";
  const auto types = config.texts(kKey);
  if (!types) return std::nullopt;
  if (std::ssize(*types) != num_layers) {
    config.refuse(kKey, fmt::format("one text for each of {} layers is accepted", num_layers));
  }
  std::vector<bool> windowed;
  for (const std::string& type : *types) {
    if (type != "full_attention" && type != "sliding_attention") {
      config.refuse(kKey, "supported: full_attention, sliding_attention");
    }
    windowed.push_back(type == "sliding_attention");
  }
  return windowed;
}

}  // namespace

ModelConfig facts_of(const JsonObject& config, const ConfigJsonKeys& keys,
                     const ConfigJsonDefaults& defaults) {
  if (config.has("quantization_config")) {
    config.refuse("quantization_config", "weights in F32, F16 and BF16 are supported");
  }
  const auto integer = [&](std::string_view key, IntegerRange range) {
    return static_cast<int>(config.required_integer(key, range));
  };
  ModelConfig model;
  const auto architectures = config.texts("architectures");
  if (architectures && !architectures->empty()) model.architecture = architectures->front();
  model.activation = activation_of(config, keys.activation, defaults.activation);
  model.num_layers = integer(keys.num_layers, kLayers);
  model.hidden_size = integer(keys.hidden_size, kWidth);
  model.intermediate_size = intermediate_size(config, keys, defaults.widening, model.hidden_size);
  model.vocab_size = integer("vocab_size", kVocabulary);
  read_heads(config, keys, defaults, model);

  model.max_position_embeddings =
      static_cast<int>(config.integer(keys.context, kContext).value_or(defaults.context));
  const double epsilon = config.number(keys.norm_eps).value_or(defaults.norm_eps);
  if (!is_norm_epsilon(epsilon)) {
    config.refuse(keys.norm_eps, "a number between 0 and 1 is accepted");
  }
  model.norm_eps = static_cast<float>(epsilon);
  model.tied_head = config.boolean("tie_word_embeddings").value_or(defaults.tied_head);

  for (const TokenId id : token_ids(config, "bos_token_id", defaults.bos_token_id)) {
    model.bos_token_id = id;
  }
  model.eos_token_ids = token_ids(config, "eos_token_id", defaults.eos_token_id);
  return model;
}

void require_neutral(const JsonObject& config, std::initializer_list<NeutralFlag> flags) {
  for (const NeutralFlag& flag : flags) {
    if (config.boolean(flag.key).value_or(flag.neutral) != flag.neutral) {
      config.refuse(flag.key, fmt::format("only {} is supported", flag.neutral));
    }
  }
}

int sliding_window(const JsonObject& config, int otherwise) {
  constexpr std::string_view kKey = "sliding_window";
  const auto given = config.integer(kKey, kContext);
  if (given) return static_cast<int>(*given);
  return config.is_null(kKey) ? 0 : otherwise;
}

void read_windows(const JsonObject& config, ModelConfig& model,
                  const std::function<bool(int)>& is_windowed) {
  const auto types = windowed_layers(config, model.num_layers);
  model.layers.resize(static_cast<std::size_t>(model.num_layers));
  bool any = false;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    model.layers[i].windowed = types ? (*types)[i] : is_windowed(static_cast<int>(i));
    any = any || model.layers[i].windowed;
  }
  if (model.window == 0) model.window = sliding_window(config);
  if (any && model.window == 0) {
    config.refuse("sliding_window", "the layers with a window need an integer from 1 on");
  }
}

void read_windows_in_use(const JsonObject& config, ModelConfig& model,
                         const std::function<bool(int)>& is_windowed) {
  if (config.boolean("use_sliding_window").value_or(false)) {
    read_windows(config, model, is_windowed);
    return;
  }
  const auto types = windowed_layers(config, model.num_layers);
  if (types && std::find(types->begin(), types->end(), true) != types->end()) {
    config.refuse("use_sliding_window", "layer_types has sliding_attention, which needs true");
  }
}

void read_windows_from_a_layer_on(const JsonObject& config, ModelConfig& model) {
  constexpr IntegerRange kWindowLayers{0, kLayers.most};
  const auto first_windowed = config.integer("max_window_layers", kWindowLayers).value_or(28);
  read_windows_in_use(config, model, [&](int layer) { return layer >= first_windowed; });
}

void window_all_layers(ModelConfig& model, int window) {
  model.window = window;
  if (window == 0) return;
  model.layers.resize(static_cast<std::size_t>(model.num_layers));
  for (LayerTraits& layer : model.layers) layer.windowed = true;
}

double positive_number(const JsonObject& config, std::string_view key, double otherwise) {
  const double value = config.number(key).value_or(otherwise);
  if (value <= 0.0) config.refuse(key, "a number above 0 is accepted");
  return value;
}

float soft_cap(const JsonObject& config, std::string_view key, float otherwise) {
  const std::optional<double> value = config.number(key);
  if (!value) return config.is_null(key) ? 0.0F : otherwise;
  if (*value <= 0.0) config.refuse(key, "a number above 0, or null, is accepted");
  return static_cast<float>(*value);
}

}  // namespace headrace
