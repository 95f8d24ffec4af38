#include "model/checkpoint/decoder_tensors.h"

#include <fmt/format.h>

#include <utility>

namespace headrace {
namespace {

struct Linear {
  std::string_view name;  // after "model.layers.N."
  std::int64_t rows;
  std::int64_t cols;
  bool has_bias;
};

void add_norm(const std::string& name, std::int64_t length, bool has_bias,
              std::vector<DecoderTensor>& tensors) {
  tensors.push_back({name + ".weight", {length}});
  if (has_bias) tensors.push_back({name + ".bias", {length}});
}

void add_norms(const ModelConfig& model, const std::string& prefix,
               std::vector<DecoderTensor>& tensors) {
  const auto add = [&](std::string_view name, std::int64_t length) {
    add_norm(fmt::format("{}{}", prefix, name), length, model.norm_bias, tensors);
  };
  const auto add_of_heads = [&](std::string_view name, int heads) {
    const std::int64_t length =
        std::int64_t{model.qk_norm == QkNorm::kHead ? 1 : heads} * model.head_dim;
    add_norm(fmt::format("{}{}", prefix, name), length, false, tensors);
  };
  if (model.pre_norms) add("input_layernorm", model.hidden_size);
  if (model.pre_norms && !model.shared_pre_norm) {
    add("post_attention_layernorm", model.hidden_size);
  }
  if (model.post_norms) {
    add("self_attn.post_norm", model.hidden_size);
    add("mlp.post_norm", model.hidden_size);
  }
  if (model.qk_norm != QkNorm::kNone) {
    add_of_heads("self_attn.q_norm", model.num_heads);
    add_of_heads("self_attn.k_norm", model.num_kv_heads);
  }
}

void add_layer(const ModelConfig& model, int layer, std::vector<DecoderTensor>& tensors) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t intermediate = model.intermediate_size;
  const std::int64_t queries = std::int64_t{model.num_heads} * model.head_dim;
  const std::int64_t keys = std::int64_t{model.num_kv_heads} * model.head_dim;
  std::vector<Linear> linears = {
      {"self_attn.q_proj", queries, hidden, model.qkv_bias},
      {"self_attn.k_proj", keys, hidden, model.qkv_bias},
      {"self_attn.v_proj", keys, hidden, model.qkv_bias},
      {"self_attn.o_proj", hidden, queries, model.output_bias},
  };
  if (model.gated_mlp) {
    linears.push_back({"mlp.gate_proj", intermediate, hidden, model.mlp_bias});
  }
  linears.push_back({"mlp.up_proj", intermediate, hidden, model.mlp_bias});
  linears.push_back({"mlp.down_proj", hidden, intermediate, model.mlp_bias});
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  add_norms(model, prefix, tensors);
  if (model.attention_sinks) tensors.push_back({prefix + "self_attn.sinks", {model.num_heads}});
  for (const Linear& linear : linears) {
    const std::string name = fmt::format("{}{}", prefix, linear.name);
    tensors.push_back({name + ".weight", {linear.rows, linear.cols}});
    if (linear.has_bias) tensors.push_back({name + ".bias", {linear.rows}});
  }
}

}  // namespace

std::vector<DecoderTensor> decoder_tensors(const ModelConfig& model) {
  std::vector<DecoderTensor> tensors;
  tensors.push_back({std::string(kEmbeddingName), {model.vocab_size, model.hidden_size}});
  for (int layer = 0; layer < model.num_layers; ++layer) add_layer(model, layer, tensors);
  add_norm("model.norm", model.hidden_size, model.norm_bias, tensors);
  if (model.learned_positions) {
    tensors.push_back(
        {std::string(kPositionsName), {model.max_position_embeddings, model.hidden_size}});
  }
  if (!model.tied_head) {
    tensors.push_back({std::string(kHeadName), {model.vocab_size, model.hidden_size}});
  }
  return tensors;
}

}  // namespace headrace
