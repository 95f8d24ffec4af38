// Weights of the reference backend: row-major, rounded to the compute type and held as float32.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"

namespace headrace {

class ReferenceMatrix final : public Matrix {
 public:
  ReferenceMatrix(std::int64_t n, std::int64_t k, ReductionTree tree, DType compute_dtype);

  std::int64_t n() const override { return n_; }
  std::int64_t k() const override { return tree_.k(); }
  int num_values() const override { return tree_.num_values(); }
  std::size_t bytes() const override { return weights_.size() * sizeof(float); }
  void set_rows(std::int64_t first_row, ConstTensorView rows) override;

  const ReductionTree& tree() const { return tree_; }
  const float* row(std::int64_t i) const { return weights_.data() + i * k(); }

 private:
  std::int64_t n_;
  ReductionTree tree_;
  DType dtype_;
  std::vector<float> weights_;  // [n, k]
};

}  // namespace headrace
