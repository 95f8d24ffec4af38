// Which blocks of a checkpoint's tensors become the weights of a part, in the order in which they
// are read. Everything that depends on it (loading, its progress, the memory table) takes it from
// here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/reduction_tree.h"
#include "model/checkpoint/checkpoint.h"
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

struct LayerSources {
  WeightSource attention_norm;
  LinearSource qkv;
  LinearSource output;
  WeightSource mlp_norm;
  LinearSource gate_up;
  LinearSource down;
};

struct PartSources {
  LinearSource embedding;  // no rows where the part has none, or no ids fall to it
  std::vector<LayerSources> layers;
  WeightSource final_norm;  // empty where the part has no head
  LinearSource head;        // no rows where the embedding serves as head, likewise
};

PartSources part_sources(const ModelConfig& config, const StagePart& part);

/// All of them, in order.
std::vector<WeightSource> all_sources(const PartSources& sources);

}  // namespace headrace
