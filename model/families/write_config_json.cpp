#include "model/families/write_config_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "model/families/pages.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGeluErf:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_pytorch_tanh";
  }
  throw std::logic_error("an activation without a name");
}

// The share of a head that turns: the head's size times it, rounded down, is rotary_dim.
double rotary_share(const ModelConfig& model) {
  double share = static_cast<double>(model.rope.rotary_dim) / model.head_dim;
  while (static_cast<int>(model.head_dim * share) < model.rope.rotary_dim) {
    share = std::nextafter(share, 2.0);
  }
  return share;
}

// Divisors of all frequencies (Llama 3's come as a tensor) are a long RoPE that has the same ones
// for all lengths.
Json divided_rope(const RopeConfig& rope, int context) {
  return {{"rope_type", "longrope"},
          {"short_factor", rope.frequency_divisors},
          {"long_factor", rope.frequency_divisors},
          {"factor", 1.0},
          {"attention_factor", 1.0},
          {"original_max_position_embeddings", context}};
}

Json rope_scaling(const ModelConfig& model) {
  const RopeConfig& rope = model.rope;
  if (!rope.frequency_divisors.empty()) return divided_rope(rope, model.max_position_embeddings);
  switch (rope.scaling) {
    case RopeConfig::Scaling::kNone:
      return nullptr;
    case RopeConfig::Scaling::kLinear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case RopeConfig::Scaling::kYarn:
      return {{"rope_type", "yarn"},
              {"factor", rope.factor},
              {"original_max_position_embeddings", rope.original_max_position_embeddings},
              {"attention_factor", rope.attention_factor},
              {"beta_fast", rope.beta_fast},
              {"beta_slow", rope.beta_slow}};
    case RopeConfig::Scaling::kLong:
      return {{"type", "longrope"},
              {"short_factor", rope.short_divisors},
              {"long_factor", rope.long_divisors}};
    case RopeConfig::Scaling::kLlama3:
      break;
  }
  throw std::logic_error("no GGUF file has this scaling");
}

void add_rope(const ModelConfig& model, Json& config) {
  if (model.rope.rotary_dim == 0) return;
  config["rope_theta"] = model.rope.theta;
  config["partial_rotary_factor"] = rotary_share(model);
  config["rope_scaling"] = rope_scaling(model);
  if (model.rope.scaling == RopeConfig::Scaling::kLong) {
    config["original_max_position_embeddings"] = model.rope.original_max_position_embeddings;
  }
}

Json shared_facts(const Family& family, const ModelConfig& model, DType dtype) {
  const ConfigJsonKeys& keys = family.config_keys;
  Json config;
  const auto set = [&](std::string_view key, const Json& value) {
    if (!key.empty()) config[std::string(key)] = value;
  };
  set("architectures", Json::array({std::string(family.architecture)}));
  set("model_type", std::string(family.model_type));
  set("torch_dtype", dtype == DType::kFloat32 ? "float32" : "bfloat16");
  set("vocab_size", model.vocab_size);
  set(keys.hidden_size, model.hidden_size);
  set(keys.intermediate_size, model.intermediate_size);
  set(keys.num_layers, model.num_layers);
  set(keys.num_heads, model.num_heads);
  set(keys.num_kv_heads, model.num_kv_heads);
  set(keys.head_dim, model.head_dim);
  set(keys.context, model.max_position_embeddings);
  set(keys.norm_eps, json_number(model.norm_eps));
  set(keys.activation, activation_name(model.activation));
  set("tie_word_embeddings", model.tied_head);
  set("bos_token_id", model.bos_token_id ? Json(*model.bos_token_id) : Json(nullptr));
  set("eos_token_id", model.eos_token_ids.empty() ? Json(nullptr) : Json(model.eos_token_ids));
  // The default of some families is an id that small vocabularies do not have.
  set("pad_token_id", nullptr);
  return config;
}

bool close(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

bool same_rope(const RopeConfig& a, const RopeConfig& b) {
  if (a.rotary_dim != b.rotary_dim || !close(a.attention_factor, b.attention_factor)) return false;
  for (const RopeLength length : {RopeLength::kShort, RopeLength::kLong}) {
    const std::vector<float> of_a = rope_inverse_frequencies(a, length);
    const std::vector<float> of_b = rope_inverse_frequencies(b, length);
    if (!std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), close)) return false;
  }
  return a.scaling != RopeConfig::Scaling::kLong ||
         a.original_max_position_embeddings == b.original_max_position_embeddings;
}

bool same_layers(const ModelConfig& a, const ModelConfig& b) {
  for (int i = 0; i < a.num_layers; ++i) {
    if (a.layer(i).windowed != b.layer(i).windowed || a.layer(i).rope != b.layer(i).rope) {
      return false;
    }
  }
  return a.window == b.window;
}

bool same_window_rope(const ModelConfig& a, const ModelConfig& b) {
  if (!a.window_rope || !b.window_rope) return !a.window_rope && !b.window_rope;
  return same_rope(*a.window_rope, *b.window_rope);
}

// The first trait in which the two differ; empty where there is none.
std::string difference(const ModelConfig& a, const ModelConfig& b) {
  struct Trait {
    const char* name;
    bool same;
  };
  const Trait traits[] = {
      {"size of the heads", a.num_kv_heads == b.num_kv_heads && a.head_dim == b.head_dim},
      {"size of the MLP", a.intermediate_size == b.intermediate_size},
      {"context", a.max_position_embeddings == b.max_position_embeddings},
      {"bias of queries, keys and values", a.qkv_bias == b.qkv_bias},
      {"bias of the attention's output", a.output_bias == b.output_bias},
      {"bias of the MLP", a.mlp_bias == b.mlp_bias},
      {"gates of the MLP", a.gated_mlp == b.gated_mlp},
      {"activation", a.activation == b.activation},
      {"kind of norms", a.norm == b.norm && a.norm_bias == b.norm_bias},
      {"epsilon of norms", a.norm_eps == b.norm_eps},
      {"place of norms", a.pre_norms == b.pre_norms && a.post_norms == b.post_norms},
      {"norms of queries and keys", a.qk_norm == b.qk_norm},
      {"order of attention and MLP",
       a.parallel_residual == b.parallel_residual && a.shared_pre_norm == b.shared_pre_norm},
      {"scale of embeddings", close(a.embedding_scale, b.embedding_scale)},
      {"scale of residuals", close(a.residual_scale, b.residual_scale)},
      {"scale of attention", close(attention_scale(a), attention_scale(b))},
      {"scale of logits", close(a.logit_scale, b.logit_scale)},
      {"caps",
       a.attention_soft_cap == b.attention_soft_cap && a.logit_soft_cap == b.logit_soft_cap},
      {"learned positions", a.learned_positions == b.learned_positions},
      {"windows or layers without RoPE", same_layers(a, b)},
      {"RoPE", same_rope(a.rope, b.rope) && same_window_rope(a, b)},
      {"special tokens", a.bos_token_id == b.bos_token_id && a.eos_token_ids == b.eos_token_ids},
  };
  for (const Trait& trait : traits) {
    if (!trait.same) return trait.name;
  }
  return {};
}

}  // namespace

Json json_number(float value) {
  return Json::parse(fmt::format("{}", value));
}

float attention_scale(const ModelConfig& model) {
  return model.attention_scale > 0.0F
             ? model.attention_scale
             : static_cast<float>(1.0 / std::sqrt(static_cast<double>(model.head_dim)));
}

const Family& directory_family(const Family& family, const ModelConfig& model) {
  return &family == &kLlamaFamily && model.window > 0 ? kMistralFamily : family;
}

std::string config_json_text(const Family& family, const ModelConfig& model, DType dtype,
                             const std::string& source) {
  Json config = shared_facts(family, model, dtype);
  add_rope(model, config);
  family.add_to_config_json(model, config);
  std::string text = config.dump(2) + '\n';
  const std::string differs =
      difference(model, family.from_config_json(JsonObject::parse(text, source)));
  if (!differs.empty()) {
    throw std::invalid_argument(
        fmt::format("{}: the config.json of {} cannot say what this file does of the model's {}",
                    source, family.architecture, differs));
  }
  return text;
}

}  // namespace headrace
