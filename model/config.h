// What a model is, apart from its weights: the traits that one decoder needs to run any supported
// family. Made by a family's mapping from config.json or from GGUF metadata.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/token.h"

namespace headrace {

/// Rotary position embedding. Frequencies and the scalings follow Hugging Face transformers'
/// modeling_rope_utils: linear, llama3 and yarn.
struct RopeConfig {
  enum class Scaling { kNone, kLinear, kLlama3, kYarn };
  double theta = 10000.0;
  int rotary_dim = 0;  // even, at most head_dim
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  int original_max_position_embeddings = 0;  // llama3, yarn
  double low_freq_factor = 1.0;              // llama3
  double high_freq_factor = 4.0;             // llama3
  double beta_fast = 32.0;                   // yarn
  double beta_slow = 1.0;                    // yarn
  bool truncate = true;                      // yarn: correction range rounded to whole dimensions
  double attention_factor = 1.0;  // yarn: multiplies cosines and sines; resolved by the mapping
  /// rotary_dim / 2 numbers that divide the frequencies (GGUF's rope_freqs.weight), or none.
  std::vector<float> frequency_divisors;
};

/// rotary_dim / 2 inverse frequencies after scaling, float32 as transformers computes them.
std::vector<float> rope_inverse_frequencies(const RopeConfig& rope);

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
  float rms_norm_eps = 1e-5F;
  bool tied_head = false;  // the head is the embedding table
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  RopeConfig rope;
  std::optional<TokenId> bos_token_id;
  std::vector<TokenId>
      eos_token_ids;  // config.json's; generation_config.json's come on top at the job
};

}  // namespace headrace
