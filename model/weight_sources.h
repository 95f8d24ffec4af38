// Which blocks of a checkpoint's tensors become the weights of a part, in the order in which they
// are read. Everything that depends on it (loading, its progress, the memory table) takes it from
// here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/reduction_tree.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/decoder_tensors.h"
#include "model/stage_part.h"

namespace headrace {

struct WeightSource {
  std::string name;
  TensorBlock block;

  std::int64_t rows() const { return block.row_end - block.row_begin; }
  std::int64_t cols() const { return block.col_end - block.col_begin; }
};

/// A matrix [n, k] made of blocks below each other, and its bias. Row-parallel products have the
/// whole bias on every rank: it is added once, to the finished sum.
struct LinearSource {
  std::vector<WeightSource> weight;
  ReductionTree tree;              // over this rank's columns
  std::vector<WeightSource> bias;  // empty: none

  std::int64_t n() const;
  std::int64_t k() const { return tree.k(); }
};

/// The vectors of a norm; a name is empty for what there is not.
struct NormSource {
  WeightSource weight;
  WeightSource bias;
};

/// What a layer may have. Norms of queries and keys are those of this rank's heads, but
/// for one over all heads. The name of the sinks is empty where there are none.
struct LayerSources {
  NormSource attention_norm;
  LinearSource qkv;
  NormSource q_norm;
  NormSource k_norm;
  WeightSource sinks;
  LinearSource output;
  NormSource attention_post_norm;
  NormSource mlp_norm;
  LinearSource gate_up;
  LinearSource down;
  NormSource mlp_post_norm;
};

struct PartSources {
  LinearSource embedding;  // no rows where the part has none, or no ids fall to it
  LinearSource positions;  // no rows where the part has no embedding, or positions are not learned
  std::vector<LayerSources> layers;
  NormSource final_norm;  // empty where the part has no head
  LinearSource head;      // no rows where the embedding serves as head, likewise
};

PartSources part_sources(const ModelConfig& config, const StagePart& part);

/// All of them, in the order in which they are read: the embedding behind the layers, so that both
/// ends of a pipeline come to it last and can share it (shared_checkpoint.h).
std::vector<WeightSource> all_sources(const PartSources& sources);

}  // namespace headrace
