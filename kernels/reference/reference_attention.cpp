#include "kernels/reference/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/numeric.h"
#include "kernels/quantize.h"
#include "kernels/read_element.h"
#include "kernels/reference/reference_math.h"

namespace headrace {
namespace {

constexpr int kChunk = kAttentionChunk;

// Integers of int8, and their scale behind them.
std::vector<float> quantized(const float* source, int count) {
  std::vector<float> row(source, source + count);
  const IntegerScale scale = int8_kv_scale(largest_of(row), all_finite(row));
  for (float& x : row) x = integer_of(x, scale);
  row.push_back(scale.scale);
  return row;
}

}  // namespace

int ReferenceCache::row_elements(const AttentionShape& shape) {
  return shape.head_dim + (shape.kv_type == KvType::kInt8 ? 1 : 0);
}

std::size_t ReferenceCache::block_bytes(const AttentionShape& shape, int block_tokens,
                                        DType dtype) {
  const DType stored = shape.kv_type == KvType::kInt8 ? DType::kFloat32 : dtype;
  return static_cast<std::size_t>(shape.num_kv_heads) * 2 * static_cast<std::size_t>(block_tokens) *
         static_cast<std::size_t>(row_elements(shape)) * dtype_bytes(stored);
}

std::byte* ReferenceCache::token(Part part, std::int32_t block, int slot, int kv_head) const {
  const std::size_t row_bytes =
      static_cast<std::size_t>(row_elements(shape_)) * dtype_bytes(stored());
  const auto tokens = static_cast<std::size_t>(kv_.block_tokens);
  const std::size_t row =
      (static_cast<std::size_t>(kv_head) * 2 + static_cast<std::size_t>(part)) * tokens +
      static_cast<std::size_t>(slot);
  return kv_.data + static_cast<std::size_t>(block) * kv_.block_bytes + row * row_bytes;
}

void ReferenceCache::store(Part part, std::int32_t block, int slot, int kv_head,
                           const float* source) const {
  std::byte* row = token(part, block, slot, kv_head);
  if (int8()) {
    const std::vector<float> integers = quantized(source, shape_.head_dim);
    std::memcpy(row, integers.data(), integers.size() * sizeof(float));
    return;
  }
  for (int d = 0; d < shape_.head_dim; ++d) {
    if (dtype_ == DType::kBFloat16) {
      const std::uint16_t rounded = float_to_bf16(source[d]);
      std::memcpy(row + d * sizeof(rounded), &rounded, sizeof(rounded));
    } else {
      std::memcpy(row + d * sizeof(float), source + d, sizeof(float));
    }
  }
}

void ReferenceCache::store_key(std::int32_t block, int slot, int kv_head, const float* key) const {
  store(Part::kKey, block, slot, kv_head, key);
}

void ReferenceCache::store_value(std::int32_t block, int slot, int kv_head,
                                 const float* value) const {
  store(Part::kValue, block, slot, kv_head, value);
}

std::vector<float> ReferenceCache::load(Part part, const SequenceRows& sequence, int kv_head,
                                        int begin, int end) const {
  std::vector<float> rows;
  for (int position = begin; position < end; ++position) {
    const std::byte* row = token(part, sequence.blocks[position / kv_.block_tokens],
                                 position % kv_.block_tokens, kv_head);
    const ConstTensorView view(row, 1, row_elements(shape_), stored());
    for (std::int64_t d = 0; d < view.cols; ++d) rows.push_back(read_element(view, d));
  }
  return rows;
}

std::vector<float> ReferenceCache::keys(const SequenceRows& sequence, int kv_head, int begin,
                                        int end) const {
  return load(Part::kKey, sequence, kv_head, begin, end);
}

std::vector<float> ReferenceCache::values(const SequenceRows& sequence, int kv_head, int begin,
                                          int end) const {
  return load(Part::kValue, sequence, kv_head, begin, end);
}

namespace {

// What a row does with the keys and values of a chunk. A row of keys or values is `stride` long.
class ChunkProducts {
 public:
  ChunkProducts(const AttentionShape& shape, const float* query, ChainType type)
      : shape_(shape), type_(type), query_(query, query + shape.head_dim) {
    if (!int8()) return;
    const IntegerScale scale = int8_scale(largest_of(query_), all_finite(query_));
    for (float& x : query_) x = integer_of(x, scale);
    factor_ = scale.scale * shape.scale;
  }

  float score(const float* key) const {
    if (!int8()) return chain(0.0F, query_.data(), key, shape_.head_dim, type_) * shape_.scale;
    std::int32_t sum = 0;
    for (int d = 0; d < shape_.head_dim; ++d) sum += product(query_[index(d)], key[d]);
    return static_cast<float>(sum) * factor_ * key[shape_.head_dim];
  }

  float probability(float exponent) const {
    const float p = exp_f32(exponent);
    // The normaliser adds what the values are multiplied by, so rounding cancels in the mean.
    return type_.dtype == DType::kBFloat16 && !int8() ? round_to_bf16(p) : p;
  }

  // weighted = weighted * rescale + weights times values; weights below `behind` are zeros.
  void add_values(std::vector<float>& weighted, float rescale, std::vector<float> weights,
                  std::size_t behind, const std::vector<float>& values) const {
    const auto count = std::ssize(weights);
    const int stride = shape_.head_dim + (int8() ? 1 : 0);
    if (!int8()) {
      const auto chain_from = [&](float sum, int d) {
        return chain(sum, weights.data(), values.data() + d, count, type_, stride);
      };
      const bool tiles = type_.dtype == DType::kBFloat16 && type_.order == SumOrder::kTiles;
      for (int d = 0; d < shape_.head_dim; ++d) {
        float& sum = weighted[index(d)];
        sum = tiles ? std::fma(sum, rescale, chain_from(0.0F, d)) : chain_from(sum * rescale, d);
      }
      return;
    }
    for (std::size_t t = behind; t < weights.size(); ++t) {
      weights[t] *= values[(t + 1) * index(stride) - 1];
    }
    const IntegerScale scale = int8_scale(largest_of(weights), all_finite(weights));
    for (float& x : weights) x = integer_of(x, scale);
    for (int d = 0; d < shape_.head_dim; ++d) {
      std::int32_t sum = 0;
      for (std::size_t t = 0; t < weights.size(); ++t) {
        sum += product(weights[t], values[t * index(stride) + index(d)]);
      }
      weighted[index(d)] =
          std::fma(static_cast<float>(sum), scale.scale, weighted[index(d)] * rescale);
    }
  }

 private:
  bool int8() const { return shape_.kv_type == KvType::kInt8; }
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static std::int32_t product(float a, float b) {
    return static_cast<std::int32_t>(a) * static_cast<std::int32_t>(b);
  }

  const AttentionShape& shape_;
  ChainType type_;
  std::vector<float> query_;
  float factor_ = 0.0F;
};

}  // namespace

void reference_attention(float* out, const float* query, const ReferenceCache& cache,
                         const AttentionShape& shape, const SequenceRows& sequence, int head,
                         int position, ChainType type) {
  const int dim = shape.head_dim;
  const int kv_head = head / (shape.num_heads / shape.num_kv_heads);
  const int seen_from = shape.window > 0 ? std::max(0, position + 1 - shape.window) : 0;
  const ChunkProducts products(shape, query, type);
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
  std::vector<float> weighted(static_cast<std::size_t>(dim), 0.0F);
  for (int begin = seen_from / kChunk * kChunk; begin <= position; begin += kChunk) {
    const int count = std::min(kChunk, position + 1 - begin);
    const std::vector<float> keys = cache.keys(sequence, kv_head, begin, begin + count);
    const std::vector<float> values = cache.values(sequence, kv_head, begin, begin + count);
    const std::size_t stride = keys.size() / static_cast<std::size_t>(count);
    std::vector<float> weights(static_cast<std::size_t>(count));
    const auto behind = static_cast<std::size_t>(std::max(0, seen_from - begin));
    float new_max = max;
    for (std::size_t t = behind; t < weights.size(); ++t) {
      weights[t] = products.score(keys.data() + t * stride);
      if (shape.soft_cap > 0.0F) weights[t] = soft_cap_f32(weights[t], shape.soft_cap);
      new_max = std::max(new_max, weights[t]);
    }
    InterleavedSum chunk_sum;
    for (std::size_t t = behind; t < weights.size(); ++t) {
      weights[t] = products.probability(weights[t] - new_max);
      chunk_sum.add(static_cast<std::int64_t>(t), weights[t]);
    }
    const float rescale = exp_f32(max - new_max);
    sum = std::fma(sum, rescale, chunk_sum.total());
    products.add_values(weighted, rescale, weights, behind, values);
    max = new_max;
  }
  const float factor = attention_factor({.max = max, .total = sum}, shape.sinks, head);
  for (int d = 0; d < dim; ++d) out[d] = weighted[static_cast<std::size_t>(d)] * factor;
}

}  // namespace headrace
