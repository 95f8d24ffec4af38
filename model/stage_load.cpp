#include "model/stage_load.h"

#include <algorithm>
#include <cstdint>

namespace headrace {
namespace {

// A row of a bulk job is about as often a prompt's as a sampled one, and the head runs for sampled
// rows only: half of its products are its load.
constexpr double kSampledRows = 0.5;

// Looking a row up costs next to nothing beside a layer.
constexpr double kEmbeddingLoad = 0.05;

// Positions that a row of a bulk job sees: those of a prompt and half of an answer of a hundred or
// two hundred tokens each.
constexpr int kTypicalContext = 128;

// What else than products a layer does follows attention: norms, RoPE, and the walk over the cache.
// Per multiplication of attention it takes as long as so many of a product. Measured with `generate
// --trace` on SmolLM2-135M, two AVX-512 cores, 128 requests of 32 to 256 prompt and 128 output
// tokens: a quarter of the products' time in bfloat16, and three quarters in int8, whose products
// are four times as fast.
constexpr double kProductsPerAttention = 4.0;
constexpr double kInt8ProductsPerAttention = 16.0;

double product_operations(const ModelConfig& c) {
  const std::int64_t attention = std::int64_t{c.num_heads} * c.head_dim;
  const std::int64_t kv = std::int64_t{c.num_kv_heads} * c.head_dim;
  return static_cast<double>(c.hidden_size * (2 * attention + 2 * kv) +
                             (c.gated_mlp ? 3 : 2) * std::int64_t{c.hidden_size} *
                                 c.intermediate_size);
}

double attention_operations(const ModelConfig& c) {
  return 2.0 * kTypicalContext * c.num_heads * c.head_dim;
}

}  // namespace

EndLoads end_loads(const ModelConfig& config, QuantizedInputs inputs) {
  const double relative =
      inputs == QuantizedInputs::kInt8 ? kInt8ProductsPerAttention : kProductsPerAttention;
  const double layer = product_operations(config) + relative * attention_operations(config);
  const double head = static_cast<double>(config.vocab_size) * config.hidden_size;
  return {.embedding = kEmbeddingLoad, .head = kSampledRows * head / layer};
}

}  // namespace headrace
