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

void add_layer(const ModelConfig& model, int layer, std::vector<DecoderTensor>& tensors) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t intermediate = model.intermediate_size;
  const std::int64_t queries = std::int64_t{model.num_heads} * model.head_dim;
  const std::int64_t keys = std::int64_t{model.num_kv_heads} * model.head_dim;
  const Linear linears[] = {
      {"self_attn.q_proj", queries, hidden, model.qkv_bias},
      {"self_attn.k_proj", keys, hidden, model.qkv_bias},
      {"self_attn.v_proj", keys, hidden, model.qkv_bias},
      {"self_attn.o_proj", hidden, queries, model.output_bias},
      {"mlp.gate_proj", intermediate, hidden, model.mlp_bias},
      {"mlp.up_proj", intermediate, hidden, model.mlp_bias},
      {"mlp.down_proj", hidden, intermediate, model.mlp_bias},
  };
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  for (const std::string_view norm : {"input_layernorm", "post_attention_layernorm"}) {
    tensors.push_back({fmt::format("{}{}.weight", prefix, norm), {hidden}});
  }
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
  tensors.push_back({"model.norm.weight", {model.hidden_size}});
  if (!model.tied_head) {
    tensors.push_back({std::string(kHeadName), {model.vocab_size, model.hidden_size}});
  }
  return tensors;
}

}  // namespace headrace
