#include "model/families/gguf_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "model/families/family_limits.h"

namespace headrace {
namespace {

// Keys with which a file may ask for what the decoder would compute differently, and the value that
// changes nothing.
struct NeutralKey {
  std::string_view key;
  double neutral;
};
constexpr std::array kNeutralKeys{
    NeutralKey{"expert_count", 0},
    NeutralKey{"attention.sliding_window", 0},
    NeutralKey{"attention.sliding_window_pattern", 0},
    NeutralKey{"logit_scale", 1},
    NeutralKey{"embedding_scale", 1},
    NeutralKey{"residual_scale", 1},
    NeutralKey{"attention.scale", 0},
    NeutralKey{"attention.clamp_kqv", 0},
    NeutralKey{"attention.max_alibi_bias", 0},
    NeutralKey{"attention.temperature_scale", 0},
    NeutralKey{"attention.shared_kv_layers", 0},
    NeutralKey{"attn_logit_softcapping", 0},
    NeutralKey{"final_logit_softcapping", 0},
};

void require_neutral(const GgufKeys& keys, std::initializer_list<std::string_view> own_keys) {
  for (const NeutralKey& key : kNeutralKeys) {
    if (std::find(own_keys.begin(), own_keys.end(), key.key) != own_keys.end()) continue;
    const double value = keys.number(key.key).value_or(key.neutral);
    if (value != key.neutral) {
      keys.refuse(
          fmt::format("{} is {}; only {} is supported", keys.full(key.key), value, key.neutral));
    }
  }
  if (!keys.boolean("attention.causal", true)) {
    keys.refuse(fmt::format("{} is false; only true is supported", keys.full("attention.causal")));
  }
}

void read_heads(const GgufKeys& keys, ModelConfig& model) {
  const std::string hidden_size = keys.full("embedding_length");
  const std::string num_heads = keys.full("attention.head_count");
  const std::string num_kv_heads = keys.full("attention.head_count_kv");
  const std::string head_dim = keys.full("attention.key_length");
  model.num_heads = keys.required_integer("attention.head_count", kHeads);
  model.num_kv_heads = keys.integer("attention.head_count_kv", kHeads).value_or(model.num_heads);
  model.head_dim = keys.integer("attention.key_length", kHeadDim).value_or(0);
  const std::string problem = settle_heads(model, {hidden_size, num_heads, num_kv_heads, head_dim});
  if (!problem.empty()) keys.refuse(problem);
  const int value_length =
      keys.integer("attention.value_length", kHeadDim).value_or(model.head_dim);
  if (value_length != model.head_dim) {
    keys.refuse(fmt::format("{} is {}; only the key_length of {} is supported",
                            keys.full("attention.value_length"), value_length, model.head_dim));
  }
}

// End of text, of a turn and of a message: llama.cpp ends a sequence at any of them, and GGUF has
// no generation_config.json that could list them.
void read_tokens(const GgufFile& file, ModelConfig& model) {
  const GgufKeys keys(file, "tokenizer");
  model.bos_token_id = keys.integer("ggml.bos_token_id", kTokenId);
  for (const std::string_view key :
       {"ggml.eos_token_id", "ggml.eot_token_id", "ggml.eom_token_id"}) {
    if (const auto id = keys.integer(key, kTokenId)) model.eos_token_ids.push_back(*id);
  }
}

void read_vocabulary(const GgufKeys& keys, ModelConfig& model) {
  const GgufTensor* embedding = keys.tensor("token_embd.weight");
  if (embedding == nullptr) keys.refuse("tensor token_embd.weight is missing");
  if (embedding->shape.size() != 2 || embedding->shape.front() > kVocabulary.most) {
    keys.refuse(
        fmt::format("tensor token_embd.weight has the shape [{}]; [vocabulary, {}] is "
                    "accepted",
                    fmt::join(embedding->shape, ", "), model.hidden_size));
  }
  model.vocab_size = static_cast<int>(embedding->shape.front());
  model.tied_head = keys.tensor("output.weight") == nullptr;
}

void read_epsilon(const GgufKeys& keys, ModelConfig& model) {
  const std::string_view key = model.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                            : "attention.layer_norm_epsilon";
  const std::optional<double> epsilon = keys.number(key);
  if (!epsilon || !is_norm_epsilon(*epsilon)) {
    keys.refuse(fmt::format("{} must be a number between 0 and 1", keys.full(key)));
  }
  model.norm_eps = static_cast<float>(*epsilon);
}

}  // namespace

std::string GgufKeys::full(std::string_view key) const {
  return fmt::format("{}.{}", architecture_, key);
}

void GgufKeys::refuse(const std::string& what) const {
  throw std::invalid_argument(fmt::format("{}: {}", file_.files().front().string(), what));
}

std::optional<int> GgufKeys::integer(std::string_view key, IntegerRange range) const {
  const std::optional<std::int64_t> value = file_.integer(full(key));
  if (value && (*value < range.least || *value > range.most)) {
    refuse(fmt::format("{} is {}; an integer from {} to {} is accepted", full(key), *value,
                       range.least, range.most));
  }
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

int GgufKeys::required_integer(std::string_view key, IntegerRange range) const {
  const std::optional<int> value = integer(key, range);
  if (!value) refuse(fmt::format("the key {} is missing", full(key)));
  return *value;
}

std::optional<double> GgufKeys::number(std::string_view key) const {
  const std::optional<double> value = file_.number(full(key));
  if (value && !std::isfinite(*value)) {
    refuse(fmt::format("{} is {}; a finite number is accepted", full(key), *value));
  }
  return value;
}

double GgufKeys::positive(std::string_view key, double otherwise) const {
  const double value = number(key).value_or(otherwise);
  if (value <= 0.0) {
    refuse(fmt::format("{} is {}; a number above 0 is accepted", full(key), value));
  }
  return value;
}

bool GgufKeys::boolean(std::string_view key, bool otherwise) const {
  return file_.boolean(full(key)).value_or(otherwise);
}

const GgufTensor* GgufKeys::tensor(std::string_view name) const {
  for (const GgufTensor& tensor : file_.tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

ModelConfig facts_of(const GgufKeys& keys, const GgufDefaults& defaults) {
  require_neutral(keys, defaults.own_keys);
  ModelConfig model;
  model.architecture = keys.architecture();
  model.norm = defaults.norm;
  model.norm_bias = defaults.norm == NormKind::kLayer && keys.tensor("output_norm.bias") != nullptr;
  model.num_layers = keys.required_integer("block_count", kLayers);
  model.hidden_size = keys.required_integer("embedding_length", kWidth);
  model.intermediate_size = keys.required_integer("feed_forward_length", kWidth);
  read_heads(keys, model);
  model.max_position_embeddings = keys.required_integer("context_length", kContext);
  read_vocabulary(keys, model);
  model.qkv_bias =
      keys.tensor("blk.0.attn_q.bias") != nullptr || keys.tensor("blk.0.attn_qkv.bias") != nullptr;
  model.output_bias = keys.tensor("blk.0.attn_output.bias") != nullptr;
  model.mlp_bias = keys.tensor("blk.0.ffn_down.bias") != nullptr;
  read_epsilon(keys, model);
  read_tokens(keys.file(), model);
  return model;
}

void require_whole_heads(const GgufKeys& keys, const ModelConfig& model, std::string_view models) {
  if (model.rope.rotary_dim == model.head_dim) return;
  keys.refuse(fmt::format("{} is {}; {} models turn whole heads of {}",
                          keys.full("rope.dimension_count"), model.rope.rotary_dim, models,
                          model.head_dim));
}

int sliding_window(const GgufKeys& keys) {
  constexpr IntegerRange kWindow{0, kContext.most};
  return keys.integer("attention.sliding_window", kWindow).value_or(0);
}

}  // namespace headrace
