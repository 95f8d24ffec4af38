// Attention of the reference backend and the layout of its cache: a block holds, for each KV head,
// keys [block_tokens, head_dim] and then values [block_tokens, head_dim] in the compute type; in
// int8 (held as float32) a scale follows each.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"
#include "kernels/reference/reference_math.h"

namespace headrace {

/// Where one token's key or value of one KV head lies.
class ReferenceCache {
 public:
  ReferenceCache(const AttentionShape& shape, const KvLayer& kv, DType dtype)
      : shape_(shape), kv_(kv), dtype_(dtype) {}

  static std::size_t block_bytes(const AttentionShape& shape, int block_tokens, DType dtype);

  void store_key(std::int32_t block, int slot, int kv_head, const float* key) const;
  void store_value(std::int32_t block, int slot, int kv_head, const float* value) const;

  /// Rows of positions [begin, end), float32 [end - begin, head_dim]; in int8 the integers and the
  /// scale, [end - begin, head_dim + 1].
  std::vector<float> keys(const SequenceRows& sequence, int kv_head, int begin, int end) const;
  std::vector<float> values(const SequenceRows& sequence, int kv_head, int begin, int end) const;

 private:
  enum class Part { kKey = 0, kValue = 1 };
  std::byte* token(Part part, std::int32_t block, int slot, int kv_head) const;
  void store(Part part, std::int32_t block, int slot, int kv_head, const float* source) const;
  std::vector<float> load(Part part, const SequenceRows& sequence, int kv_head, int begin,
                          int end) const;

  bool int8() const { return shape_.kv_type == KvType::kInt8; }
  static int row_elements(const AttentionShape& shape);
  DType stored() const { return int8() ? DType::kFloat32 : dtype_; }

  AttentionShape shape_;
  KvLayer kv_;
  DType dtype_;
};

/// Query head `head` of one row at `position`; query and out are float32 [head_dim].
void reference_attention(float* out, const float* query, const ReferenceCache& cache,
                         const AttentionShape& shape, const SequenceRows& sequence, int head,
                         int position, ChainType type);

}  // namespace headrace
