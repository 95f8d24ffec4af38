// What config.json says in every family, under keys that a family may spell its own way.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "model/checkpoint/json_object.h"
#include "model/config.h"

namespace headrace {

/// Spellings. An empty one means that the family has no such key.
struct ConfigJsonKeys {
  std::string_view num_layers = "num_hidden_layers";
  std::string_view hidden_size = "hidden_size";
  std::string_view intermediate_size = "intermediate_size";
  std::string_view num_heads = "num_attention_heads";
  std::string_view num_kv_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";
  std::string_view context = "max_position_embeddings";
  std::string_view norm_eps = "rms_norm_eps";
  std::string_view activation = "hidden_act";
};

/// What transformers takes where config.json leaves a key out. Keys that decide shapes have no
/// default here, unless a family's files leave them out: a file without them is damaged.
struct ConfigJsonDefaults {
  int context = 2048;
  double norm_eps = 1e-6;
  Activation activation = Activation::kSilu;
  bool tied_head = false;
  std::optional<TokenId> bos_token_id = {};
  std::optional<TokenId> eos_token_id = {};
  int widening = 0;                // intermediate_size in hidden_sizes; 0: the key is needed
  int head_dim = 0;                // 0: hidden_size / heads
  bool one_kv_head_a_head = true;  // else the number of KV heads is needed
};

/// Sizes, heads, norm epsilon, activation, tied head and special tokens. Refuses quantised weights.
/// RoPE and a family's own traits are left to its page. Throws std::invalid_argument naming file,
/// key, value and what would be accepted.
ModelConfig facts_of(const JsonObject& config, const ConfigJsonKeys& keys,
                     const ConfigJsonDefaults& defaults);

/// A key with which a file asks for something that the decoder does not have, and the value that
/// asks for nothing.
struct NeutralFlag {
  std::string_view key;
  bool neutral = false;
};
/// Throws where one of them has another value.
void require_neutral(const JsonObject& config, std::initializer_list<NeutralFlag> flags);

/// sliding_window: from 1 on, or 0 where it is null; the other one where it is absent.
int sliding_window(const JsonObject& config, int otherwise = 0);

/// The windows of a family whose layers differ: fills model.window, if it is still 0, and
/// model.layers' windowed by layer_types or, where that is absent, by the family's rule for a
/// layer's index.
void read_windows(const JsonObject& config, ModelConfig& model,
                  const std::function<bool(int)>& is_windowed);

/// The same for families with use_sliding_window: no layer has a window where that is absent or
/// false.
void read_windows_in_use(const JsonObject& config, ModelConfig& model,
                         const std::function<bool(int)>& is_windowed);

/// The same where the layers from max_window_layers on have the window, as Qwen has it.
void read_windows_from_a_layer_on(const JsonObject& config, ModelConfig& model);

/// Gives all layers that window, where it is not 0.
void window_all_layers(ModelConfig& model, int window);

/// A number that multiplies or divides: finite and above 0.
double positive_number(const JsonObject& config, std::string_view key, double otherwise);

/// A soft cap: above 0, or 0 where it is null; the other one where it is absent.
float soft_cap(const JsonObject& config, std::string_view key, float otherwise);

}  // namespace headrace
