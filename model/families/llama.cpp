#include "model/families/llama.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "model/checkpoint/appearance.h"
#include "model/families/gguf_rope.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

// Far above any model there is, low enough that products of two of them fit 63 bits.
constexpr IntegerRange kLayers{1, 4096};
constexpr IntegerRange kWidth{1, 1 << 24};
constexpr IntegerRange kHeads{1, 1 << 16};
constexpr IntegerRange kHeadDim{2, 1 << 14};
constexpr IntegerRange kVocabulary{1, 1 << 26};
constexpr IntegerRange kContext{1, std::numeric_limits<int>::max()};
constexpr IntegerRange kTokenId{0, std::numeric_limits<TokenId>::max()};

bool is_norm_epsilon(double value) {
  return value > 0.0 && value < 1.0;
}

// How q, k, v and the heads fit together. The keys are those of the file, for the messages.
struct HeadKeys {
  std::string_view hidden_size;
  std::string_view num_heads;
  std::string_view num_kv_heads;
  std::string_view head_dim;
};

// Fills head_dim where the file leaves it out. Empty where all is well, else what is wrong.
std::string settle_heads(ModelConfig& model, const HeadKeys& keys) {
  if (model.head_dim == 0 && model.hidden_size % model.num_heads != 0) {
    return fmt::format("{} ({}) is no multiple of {} ({}), and {} is absent", keys.hidden_size,
                       model.hidden_size, keys.num_heads, model.num_heads, keys.head_dim);
  }
  if (model.head_dim == 0) model.head_dim = model.hidden_size / model.num_heads;
  if (model.head_dim % 2 != 0) {
    return fmt::format("the heads have {} dimensions; RoPE needs an even number", model.head_dim);
  }
  if (model.num_heads % model.num_kv_heads != 0) {
    return fmt::format("{} ({}) is no multiple of {} ({})", keys.num_heads, model.num_heads,
                       keys.num_kv_heads, model.num_kv_heads);
  }
  if (std::int64_t{model.num_heads} * model.head_dim > kWidth.most) {
    return fmt::format("{} heads of {} dimensions are more than {} values", model.num_heads,
                       model.head_dim, kWidth.most);
  }
  return {};
}

// One id or several; none where the file says null, the default where it says nothing.
std::vector<TokenId> token_ids(const JsonObject& config, std::string_view key, TokenId otherwise) {
  std::vector<TokenId> ids;
  const auto given = config.integers(key, kTokenId);
  if (!given && !config.is_null(key)) ids.push_back(otherwise);
  for (const std::int64_t id : given.value_or(std::vector<std::int64_t>{})) {
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

// Absent keys have LlamaConfig's defaults in transformers, except those that decide shapes: a file
// without them is damaged.
ModelConfig from_config_json(const JsonObject& config) {
  if (config.has("quantization_config")) {
    config.refuse("quantization_config", "weights in F32, F16 and BF16 are supported");
  }
  if (config.text("hidden_act").value_or("silu") != "silu") {
    config.refuse("hidden_act", "supported: silu");
  }
  const auto integer = [&](std::string_view key, IntegerRange range) {
    return static_cast<int>(config.required_integer(key, range));
  };

  ModelConfig model;
  model.architecture = "LlamaForCausalLM";
  model.num_layers = integer("num_hidden_layers", kLayers);
  model.hidden_size = integer("hidden_size", kWidth);
  model.intermediate_size = integer("intermediate_size", kWidth);
  model.vocab_size = integer("vocab_size", kVocabulary);
  model.num_heads = integer("num_attention_heads", kHeads);
  model.num_kv_heads =
      static_cast<int>(config.integer("num_key_value_heads", kHeads).value_or(model.num_heads));
  model.head_dim = static_cast<int>(config.integer("head_dim", kHeadDim).value_or(0));
  const std::string problem = settle_heads(
      model, {"hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"});
  if (!problem.empty()) {
    throw std::invalid_argument(fmt::format("{}: {}", config.source(), problem));
  }

  model.max_position_embeddings =
      static_cast<int>(config.integer("max_position_embeddings", kContext).value_or(2048));
  const double epsilon = config.number("rms_norm_eps").value_or(1e-6);
  if (!is_norm_epsilon(epsilon))
    config.refuse("rms_norm_eps", "a number between 0 and 1 is accepted");
  model.rms_norm_eps = static_cast<float>(epsilon);

  model.tied_head = config.boolean("tie_word_embeddings").value_or(false);
  model.qkv_bias = config.boolean("attention_bias").value_or(false);
  model.output_bias = model.qkv_bias;
  model.mlp_bias = config.boolean("mlp_bias").value_or(false);

  model.rope = rope_from_config_json(config, model.head_dim, model.max_position_embeddings);
  if (model.rope.rotary_dim != model.head_dim) {
    throw std::invalid_argument(fmt::format(
        "{}: partial_rotary_factor is below 1; Llama models turn whole heads", config.source()));
  }

  for (const TokenId id : token_ids(config, "bos_token_id", 1)) model.bos_token_id = id;
  model.eos_token_ids = token_ids(config, "eos_token_id", 2);
  return model;
}

[[noreturn]] void refuse(const GgufFile& file, const std::string& what) {
  throw std::invalid_argument(fmt::format("{}: {}", file.files().front().string(), what));
}

// nullopt where the key is absent.
std::optional<int> gguf_integer(const GgufFile& file, std::string_view key, IntegerRange range) {
  const std::optional<std::int64_t> value = file.integer(key);
  if (value && (*value < range.least || *value > range.most)) {
    refuse(file, fmt::format("{} is {}; an integer from {} to {} is accepted", key, *value,
                             range.least, range.most));
  }
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

int required_gguf_integer(const GgufFile& file, std::string_view key, IntegerRange range) {
  const std::optional<int> value = gguf_integer(file, key, range);
  if (!value) refuse(file, fmt::format("the key {} is missing", key));
  return *value;
}

const GgufTensor* find_tensor(const GgufFile& file, std::string_view name) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// Keys with which other models reuse the architecture's name for something the decoder would
// compute differently, and the value that changes nothing.
struct NeutralKey {
  std::string_view key;
  double neutral;
};
constexpr std::array kNeutralKeys{
    NeutralKey{"llama.expert_count", 0},
    NeutralKey{"llama.attention.sliding_window", 0},
    NeutralKey{"llama.logit_scale", 1},
    NeutralKey{"llama.embedding_scale", 1},
    NeutralKey{"llama.residual_scale", 1},
    NeutralKey{"llama.attention.clamp_kqv", 0},
    NeutralKey{"llama.attention.max_alibi_bias", 0},
};

void read_gguf_heads(const GgufFile& file, ModelConfig& model) {
  constexpr HeadKeys kKeys{"llama.embedding_length", "llama.attention.head_count",
                           "llama.attention.head_count_kv", "llama.attention.key_length"};
  model.num_heads = required_gguf_integer(file, kKeys.num_heads, kHeads);
  model.num_kv_heads = gguf_integer(file, kKeys.num_kv_heads, kHeads).value_or(model.num_heads);
  model.head_dim = gguf_integer(file, kKeys.head_dim, kHeadDim).value_or(0);
  const std::string problem = settle_heads(model, kKeys);
  if (!problem.empty()) refuse(file, problem);
  const int value_length =
      gguf_integer(file, "llama.attention.value_length", kHeadDim).value_or(model.head_dim);
  if (value_length != model.head_dim) {
    refuse(file, fmt::format("llama.attention.value_length is {}; only the key_length of {} is "
                             "supported",
                             value_length, model.head_dim));
  }
}

// End of text, of a turn and of a message: llama.cpp ends a sequence at any of them, and GGUF has
// no generation_config.json that could list them.
void read_gguf_tokens(const GgufFile& file, ModelConfig& model) {
  model.bos_token_id = gguf_integer(file, "tokenizer.ggml.bos_token_id", kTokenId);
  for (const std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = gguf_integer(file, key, kTokenId)) model.eos_token_ids.push_back(*id);
  }
}

ModelConfig from_gguf(const GgufFile& file) {
  for (const NeutralKey& key : kNeutralKeys) {
    const double value = file.number(key.key).value_or(key.neutral);
    if (value != key.neutral) {
      refuse(file, fmt::format("{} is {}; only {} is supported", key.key, value, key.neutral));
    }
  }
  ModelConfig model;
  model.architecture = "llama";
  model.num_layers = required_gguf_integer(file, "llama.block_count", kLayers);
  model.hidden_size = required_gguf_integer(file, "llama.embedding_length", kWidth);
  model.intermediate_size = required_gguf_integer(file, "llama.feed_forward_length", kWidth);
  read_gguf_heads(file, model);
  model.max_position_embeddings = required_gguf_integer(file, "llama.context_length", kContext);

  const GgufTensor* embedding = find_tensor(file, "token_embd.weight");
  if (embedding == nullptr) refuse(file, "tensor token_embd.weight is missing");
  if (embedding->shape.size() != 2 || embedding->shape.front() > kVocabulary.most) {
    refuse(file, fmt::format("tensor token_embd.weight has the shape [{}]; [vocabulary, {}] is "
                             "accepted",
                             fmt::join(embedding->shape, ", "), model.hidden_size));
  }
  model.vocab_size = static_cast<int>(embedding->shape.front());
  model.tied_head = find_tensor(file, "output.weight") == nullptr;
  model.qkv_bias = find_tensor(file, "blk.0.attn_q.bias") != nullptr;
  model.output_bias = find_tensor(file, "blk.0.attn_output.bias") != nullptr;
  model.mlp_bias = find_tensor(file, "blk.0.ffn_down.bias") != nullptr;

  constexpr std::string_view kEpsilon = "llama.attention.layer_norm_rms_epsilon";
  const std::optional<double> epsilon = file.number(kEpsilon);
  if (!epsilon || !is_norm_epsilon(*epsilon)) {
    refuse(file, fmt::format("{} must be a number between 0 and 1", kEpsilon));
  }
  model.rms_norm_eps = static_cast<float>(*epsilon);
  model.rope = rope_from_gguf(file, "llama.", model.head_dim, model.max_position_embeddings);
  if (model.rope.rotary_dim != model.head_dim) {
    refuse(file,
           fmt::format("llama.rope.dimension_count is {}; Llama models turn whole heads of {}",
                       model.rope.rotary_dim, model.head_dim));
  }
  read_gguf_tokens(file, model);
  return model;
}

// Only Llama's files in GGUF have interleaved heads: its converter reorders the rows of q and k so
// that RoPE turns neighbours, where Hugging Face's turns halves.
constexpr std::array kGgufTensors{
    GgufTensorName{"token_embd", "model.embed_tokens"},
    GgufTensorName{"output_norm", "model.norm"},
    GgufTensorName{"output", "lm_head"},
    GgufTensorName{"blk.#.attn_norm", "model.layers.#.input_layernorm"},
    GgufTensorName{"blk.#.attn_q", "model.layers.#.self_attn.q_proj", true},
    GgufTensorName{"blk.#.attn_k", "model.layers.#.self_attn.k_proj", true},
    GgufTensorName{"blk.#.attn_v", "model.layers.#.self_attn.v_proj"},
    GgufTensorName{"blk.#.attn_output", "model.layers.#.self_attn.o_proj"},
    GgufTensorName{"blk.#.ffn_norm", "model.layers.#.post_attention_layernorm"},
    GgufTensorName{"blk.#.ffn_gate", "model.layers.#.mlp.gate_proj"},
    GgufTensorName{"blk.#.ffn_up", "model.layers.#.mlp.up_proj"},
    GgufTensorName{"blk.#.ffn_down", "model.layers.#.mlp.down_proj"},
};

// Inverse frequencies that old checkpoints store; they follow from the configuration.
bool ignores_tensor(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq") || name.ends_with(".attn_rot_embd.weight");
}

}  // namespace

constexpr Family kLlamaFamily{
    .architecture = "LlamaForCausalLM",
    .model_type = "llama",
    .gguf_architecture = "llama",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
    .gguf_tensors = kGgufTensors,
    .ignores_tensor = ignores_tensor,
};

}  // namespace headrace
