// What a rank of a stage takes of memory, by arithmetic from sizes alone: the memory plan asks
// before anything is loaded, StageModel takes exactly that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"
#include "model/config.h"
#include "model/kv_groups.h"
#include "model/stage_part.h"

namespace headrace {

/// How much the stage must be ready for.
struct StageSize {
  int max_rows = 0;         // rows of a step
  int max_logit_rows = 0;   // rows whose logits are taken at once; more are done in turns
  int max_context = 0;      // positions of a sequence
  int num_blocks = 0;       // of the KV cache
  int num_swap_blocks = 0;  // in host memory
  int block_tokens = 16;    // of a page
  KvGroups kv = {};         // as all stages have them
  KvType kv_type = KvType::kCompute;
};

/// Bytes of a rank's buffer in the exchange between the ranks of a stage.
std::size_t stage_exchange_bytes(const ModelConfig& config, const StagePart& part,
                                 const StageSize& size);

/// Bytes of the stage's workspace and of one KV block over all its layers.
std::size_t stage_workspace_bytes(const ModelConfig& config, const StagePart& part, DType dtype,
                                  const StageSize& size);
std::size_t stage_block_bytes(const ModelConfig& config, const StagePart& part, const Ops& ops,
                              const StageSize& size);

/// What the backend's reserve() takes of the arena for the stage.
std::size_t stage_reserve_bytes(const ModelConfig& config, const StagePart& part, const Ops& ops,
                                const StageSize& size);

/// The heads of the part's attention as the operators see them, in a layer that sees everything and
/// has RoPE.
AttentionShape attention_shape(const ModelConfig& config, const StagePart& part, KvType kv_type);

/// Elements of a row of each of the workspace's tensors, for the rank's own part.
struct RowWidths {
  std::int64_t hidden, qkv, gate_up, heads, inner, vocab;
  std::int64_t wide() const { return std::max(qkv, gate_up); }
};
RowWidths row_widths(const ModelConfig& config, const TensorShard& own);

/// What StageModel takes of the arena beside the KV cache, tensor by tensor.
struct WorkspaceBytes {
  WorkspaceBytes(const ModelConfig& config, const StagePart& part, DType dtype,
                 const StageSize& size);
  std::size_t total() const;

  std::size_t normed = 0;
  std::size_t wide = 0;
  std::size_t queries = 0;
  std::size_t inner = 0;
  std::size_t outcome = 0;
  std::size_t projections = 0;
  std::size_t gathered = 0;
  std::size_t logits = 0;
  std::size_t rotations = 0;
  std::size_t window_rotations = 0;
};

/// Where the cache's pages lie.
KvPlaces stage_kv_places(const ModelConfig& config, const StagePart& part, const Ops& ops,
                         const StageSize& size);

/// What attention and MLP give is changed before it is added to the hidden state.
bool changes_outcomes(const ModelConfig& config);

/// A norm runs over the queries, or keys, of heads that several ranks have.
bool shares_norms(const ModelConfig& config, const StagePart& part);

/// Elements of a row of queries and keys of all heads.
std::int64_t projection_cols(const ModelConfig& config);

/// The most rows that operators are called with.
int most_rows(const StagePart& part, const StageSize& size);

/// Of max_logit_rows rows of logits, the most that a rank has to itself.
int most_own_rows(const StageSize& size, const StagePart& part);

/// Bytes of rows * cols elements.
std::size_t tensor_bytes(std::int64_t rows, std::int64_t cols, DType dtype);

}  // namespace headrace
