// Weights of the GPU backend: row-major [n, k] in the compute type, in the device's memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_arena.h"
#include "kernels/ops.h"

namespace headrace {

class CudaMatrix final : public Matrix {
 public:
  /// stored is the tree that the sums obey: the whole one, or one slice for each of its values.
  CudaMatrix(std::int64_t n, ReductionTree stored, DType dtype, CudaArena& arena);

  std::int64_t n() const override { return n_; }
  std::int64_t k() const override { return tree_.k(); }
  int num_values() const override { return tree_.num_values(); }
  std::size_t bytes() const override;
  void set_rows(std::int64_t first_row, ConstTensorView rows) override;
  bool make_rows(std::int64_t first_row, const RandomRows& rows) override;

  const ReductionTree& tree() const { return tree_; }
  const std::byte* weights() const { return weights_; }
  DType dtype() const { return dtype_; }

 private:
  std::int64_t n_;
  ReductionTree tree_;
  DType dtype_;
  CudaArena& arena_;
  std::byte* weights_;  // in the arena
};

/// The tree with the slices of each of its values made one.
ReductionTree without_slices(const ReductionTree& tree);

}  // namespace headrace
