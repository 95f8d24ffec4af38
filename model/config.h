// What a model is, apart from its weights: the traits that one decoder needs to run any supported
// family. Made by a family's mapping from config.json or from GGUF metadata.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "model/token.h"

namespace headrace {

/// Rotary position embedding. Frequencies and the scalings follow Hugging Face transformers'
/// modeling_rope_utils: linear, llama3, yarn and longrope.
struct RopeConfig {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn, kLong };
  double theta = 10000.0;
  int rotary_dim = 0;  // even, at most head_dim
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  int original_max_position_embeddings = 0;  // llama3, yarn, long
  double low_freq_factor = 1.0;              // llama3
  double high_freq_factor = 4.0;             // llama3
  double beta_fast = 32.0;                   // yarn
  double beta_slow = 1.0;                    // yarn
  bool truncate = true;                      // yarn: correction range rounded to whole dimensions
  double attention_factor = 1.0;  // yarn, long: multiplies cosines and sines; already resolved
  /// long: rotary_dim / 2 numbers that divide the frequencies of a sequence that may become longer
  /// than original_max_position_embeddings, and of one that may not.
  std::vector<float> long_divisors;
  std::vector<float> short_divisors;
  /// rotary_dim / 2 numbers that divide the frequencies (GGUF's rope_freqs.weight), or none.
  std::vector<float> frequency_divisors;
};

/// Which of the long scaling's two sets of frequencies a sequence has; the same for the others.
enum class RopeLength { kShort, kLong };

/// rotary_dim / 2 inverse frequencies after scaling, float32 as transformers computes them.
std::vector<float> rope_inverse_frequencies(const RopeConfig& rope,
                                            RopeLength length = RopeLength::kShort);

/// The set for a sequence of at most max_length tokens, prompt and completion together.
RopeLength rope_length(const RopeConfig& rope, int max_length);

/// Norms of queries and keys before RoPE, without biases: none; one over each head, with weights
/// that all heads share or with weights of each head's own; or one over all heads.
enum class QkNorm { kNone, kHead, kOwnHead, kProjection };

/// What may differ from layer to layer.
struct LayerTraits {
  bool windowed = false;  // sees ModelConfig::window keys, not all
  bool rope = true;
};

struct ModelConfig {
  std::string architecture;  // as the file names it: "LlamaForCausalLM" or GGUF's "llama"
  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int intermediate_size = 0;
  int vocab_size = 0;
  int max_position_embeddings = 0;
  bool tied_head = false;  // the head is the embedding table

  // Products.
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  bool gated_mlp = true;  // down(activation(gate) * up); else down(activation(up))
  Activation activation = Activation::kSilu;

  // Norms: before attention and MLP, of what they give, of queries and keys, and a final one.
  NormKind norm = NormKind::kRms;
  bool norm_bias = false;  // kLayer only
  float norm_eps = 1e-5F;
  bool pre_norms = true;
  bool post_norms = false;  // before the residual is added
  QkNorm qk_norm = QkNorm::kNone;

  // Residuals. Parallel: attention and MLP both read the layer's input x, and the layer gives
  // (x + attention) + MLP.
  bool parallel_residual = false;
  bool shared_pre_norm = false;  // parallel only: the MLP reads what the attention's norm gives

  // Scales and caps; a cap of 0 is none.
  float embedding_scale = 1.0F;
  float residual_scale = 1.0F;   // of what attention and MLP give
  float attention_scale = 0.0F;  // of query times key; 0: 1 / sqrt(head_dim)
  float attention_soft_cap = 0.0F;
  bool attention_sinks = false;  // one score more for each query head (AttentionShape::sinks)
  float logit_scale = 1.0F;
  float logit_soft_cap = 0.0F;

  // Positions.
  bool learned_positions = false;         // a table [max_position_embeddings, hidden_size] is added
  int window = 0;                         // keys that windowed layers see, their own the last
  RopeConfig rope;                        // rotary_dim 0: none
  std::optional<RopeConfig> window_rope;  // of windowed layers, where it is another one
  std::vector<LayerTraits> layers;        // one a layer; empty: all layers have the defaults

  LayerTraits layer(int index) const {
    return layers.empty() ? LayerTraits{} : layers[static_cast<std::size_t>(index)];
  }

  std::optional<TokenId> bos_token_id;
  std::vector<TokenId>
      eos_token_ids;  // config.json's; generation_config.json's come on top at the job
};

}  // namespace headrace
