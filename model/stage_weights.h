// The weights that one stage holds, in the backend's layout, and how they are read: each rank reads
// the bytes of its own layers only, in pieces, straight into packed matrices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "model/checkpoint/checkpoint.h"
#include "model/stage_part.h"
#include "model/weight_types.h"

namespace headrace {

/// A matrix with the bias that is added to its product, in the backend's arena.
struct Linear {
  std::unique_ptr<Matrix> weight;
  const float* bias = nullptr;  // [n]; null: none
};

/// The vectors of a norm, in the backend's arena; both null where the model has no such norm.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;  // null: none
};

/// Heads, intermediate and vocab are those of the rank's shard.
struct LayerWeights {
  NormWeights attention_norm;  // [hidden]
  Linear qkv;                  // [(heads + 2 * kv_heads) * head_dim, hidden]: queries, keys, values
  NormWeights q_norm;          // [head_dim] or [heads * head_dim], of own heads or all
  NormWeights k_norm;          // [head_dim] or [kv_heads * head_dim], likewise
  Linear output;               // [hidden, heads * head_dim]
  NormWeights attention_post_norm;  // [hidden]
  NormWeights mlp_norm;             // [hidden]
  Linear gate_up;                   // [2 * intermediate, hidden]: gates, ups; or ups alone
  Linear down;                      // [hidden, intermediate]
  NormWeights mlp_post_norm;        // [hidden]
};

struct StageWeights {
  std::unique_ptr<Matrix> embedding;  // [own vocab, hidden]; null where there is none
  std::unique_ptr<Matrix> positions;  // [positions, hidden]; null where there is none
  std::vector<LayerWeights> layers;
  NormWeights final_norm;            // [hidden]; null where the stage has no head
  std::unique_ptr<Matrix> own_head;  // [own vocab, hidden]; null where the embedding serves as head

  /// Null where the part has no head, or no ids fall to its rank.
  const Matrix* head(const StagePart& part) const;
};

/// Called with the bytes of stored weights that were read so far.
using LoadProgress = std::function<void(std::uint64_t)>;

struct LoadOptions {
  /// What matrices of a checkpoint without quantised ones become (WeightTypes).
  Quantization quantization = Quantization::kNone;
  LoadProgress progress;
  /// What quantised matrices do with the inputs of their products.
  QuantizedInputs inputs = QuantizedInputs::kInt8;
};

/// Reads the part's weights. Throws what Checkpoint and Ops throw.
StageWeights load_stage_weights(Checkpoint& checkpoint, const StagePart& part, Ops& ops,
                                const LoadOptions& options);

/// Bytes that load_stage_weights() will read: what its progress counts up to.
std::uint64_t stage_stored_bytes(const Checkpoint& checkpoint, const StagePart& part);

/// Bytes of packed weights that the part will take, before anything is read. type: what
/// LoadOptions and Ops say.
std::size_t stage_weight_bytes(const Checkpoint& checkpoint, const StagePart& part,
                               WeightType type);

/// Bytes of an arena that unquantised weights take, matrices, norms and biases.
std::size_t stage_arena_bytes(const ModelConfig& config, const StagePart& part, DType dtype);

}  // namespace headrace
