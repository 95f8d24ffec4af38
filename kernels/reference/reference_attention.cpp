#include "kernels/reference/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/numeric.h"
#include "kernels/read_element.h"
#include "kernels/reference/reference_math.h"

namespace headrace {
namespace {

constexpr int kChunk = 64;  // keys between two rescalings of the online soft-max

}  // namespace

std::size_t ReferenceCache::block_bytes(const AttentionShape& shape, int block_tokens,
                                        DType dtype) {
  return static_cast<std::size_t>(shape.num_kv_heads) * 2 * static_cast<std::size_t>(block_tokens) *
         static_cast<std::size_t>(shape.head_dim) * dtype_bytes(dtype);
}

std::byte* ReferenceCache::token(Part part, std::int32_t block, int slot, int kv_head) const {
  const std::size_t row_bytes = static_cast<std::size_t>(shape_.head_dim) * dtype_bytes(dtype_);
  const auto tokens = static_cast<std::size_t>(kv_.block_tokens);
  const std::size_t row =
      (static_cast<std::size_t>(kv_head) * 2 + static_cast<std::size_t>(part)) * tokens +
      static_cast<std::size_t>(slot);
  return kv_.data + static_cast<std::size_t>(block) * kv_.block_bytes + row * row_bytes;
}

void ReferenceCache::store(Part part, std::int32_t block, int slot, int kv_head,
                           const float* source) const {
  std::byte* row = token(part, block, slot, kv_head);
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
    const ConstTensorView view(row, 1, shape_.head_dim, dtype_);
    for (int d = 0; d < shape_.head_dim; ++d) rows.push_back(read_element(view, d));
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

void reference_attention(float* out, const float* query, const ReferenceCache& cache,
                         const AttentionShape& shape, const SequenceRows& sequence, int kv_head,
                         int position, DType dtype) {
  const int dim = shape.head_dim;
  const int seen_from = shape.window > 0 ? std::max(0, position + 1 - shape.window) : 0;
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
  std::vector<float> weighted(static_cast<std::size_t>(dim), 0.0F);
  for (int begin = seen_from / kChunk * kChunk; begin <= position; begin += kChunk) {
    const int count = std::min(kChunk, position + 1 - begin);
    const std::vector<float> keys = cache.keys(sequence, kv_head, begin, begin + count);
    const std::vector<float> values = cache.values(sequence, kv_head, begin, begin + count);
    std::vector<float> weights(static_cast<std::size_t>(count));
    const auto behind = static_cast<std::size_t>(std::max(0, seen_from - begin));
    float new_max = max;
    for (std::size_t t = behind; t < weights.size(); ++t) {
      weights[t] = chain(0.0F, query, keys.data() + t * dim, dim, dtype) * shape.scale;
      if (shape.soft_cap > 0.0F) weights[t] = soft_cap_f32(weights[t], shape.soft_cap);
      new_max = std::max(new_max, weights[t]);
    }
    InterleavedSum chunk_sum;
    for (std::size_t t = behind; t < weights.size(); ++t) {
      weights[t] = exp_f32(weights[t] - new_max);
      // The normaliser adds what the values are multiplied by, so rounding cancels in the mean.
      if (dtype == DType::kBFloat16) weights[t] = round_to_bf16(weights[t]);
      chunk_sum.add(static_cast<std::int64_t>(t), weights[t]);
    }
    const float rescale = exp_f32(max - new_max);
    sum = std::fma(sum, rescale, chunk_sum.total());
    for (int d = 0; d < dim; ++d) {
      const auto i = static_cast<std::size_t>(d);
      weighted[i] =
          chain(weighted[i] * rescale, weights.data(), values.data() + d, count, dtype, dim);
    }
    max = new_max;
  }
  const float inverse = 1.0F / sum;
  for (int d = 0; d < dim; ++d) out[d] = weighted[static_cast<std::size_t>(d)] * inverse;
}

}  // namespace headrace
