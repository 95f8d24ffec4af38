// StableLM: Llama with LayerNorm, RoPE over a part of each head, and in some sizes attention and
// MLP side by side behind one norm.
#include "model/families/config_json_facts.h"
#include "model/families/gguf_facts.h"
#include "model/families/gguf_rope.h"
#include "model/families/pages.h"
#include "model/families/rope_parameters.h"

namespace headrace {
namespace {

ModelConfig from_config_json(const JsonObject& config) {
  ModelConfig model = facts_of(config, {.norm_eps = "layer_norm_eps"},
                               {.context = 4096,
                                .norm_eps = 1e-5,
                                .bos_token_id = 0,
                                .eos_token_id = 0,
                                .one_kv_head_a_head = false});
  require_neutral(config, {{"qk_layernorm", false}});
  model.norm = NormKind::kLayer;
  model.norm_bias = true;
  model.qkv_bias = config.boolean("use_qkv_bias").value_or(false);
  model.parallel_residual = config.boolean("use_parallel_residual").value_or(false);
  model.shared_pre_norm = model.parallel_residual;
  model.rope =
      rope_from_config_json(config, model.head_dim, model.max_position_embeddings, {.share = 0.25});
  return model;
}

// llama.cpp goes by the MLP's norm, which the parallel form does not have.
ModelConfig from_gguf(const GgufFile& file) {
  const GgufKeys keys(file, "stablelm");
  ModelConfig model = facts_of(keys, {.norm = NormKind::kLayer});
  model.parallel_residual = keys.tensor("blk.0.ffn_norm.weight") == nullptr;
  model.shared_pre_norm = model.parallel_residual;
  model.rope = rope_from_gguf(file, "stablelm.", model.head_dim, model.max_position_embeddings);
  return model;
}

}  // namespace

constexpr Family kStableLmFamily{
    .architecture = "StableLmForCausalLM",
    .model_type = "stablelm",
    .gguf_architecture = "stablelm",
    .from_config_json = from_config_json,
    .from_gguf = from_gguf,
};

}  // namespace headrace
