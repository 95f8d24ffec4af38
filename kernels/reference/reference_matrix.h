// Weights of the reference backend, row-major and held as float32: rounded to the compute type, or
// integers of int8 beside their scales.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"
#include "kernels/quantize.h"

namespace headrace {

class ReferenceMatrix final : public Matrix {
 public:
  ReferenceMatrix(MatrixSpec spec, DType compute_dtype);

  std::int64_t n() const override { return spec_.n; }
  std::int64_t k() const override { return spec_.k; }
  int num_values() const override { return spec_.tree.num_values(); }
  std::size_t bytes() const override { return weights_.size() * sizeof(float); }
  void set_rows(std::int64_t first_row, ConstTensorView rows) override;
  void set_integer_rows(std::int64_t first_row, const IntegerRows& rows) override;

  const ReductionTree& tree() const { return spec_.tree; }
  bool quantized() const { return spec_.quantization != Quantization::kNone; }
  const float* row(std::int64_t i) const { return weights_.data() + i * k(); }
  Quantization quantization() const { return spec_.quantization; }
  bool quantizes_inputs() const { return quantized() && spec_.inputs == QuantizedInputs::kInt8; }
  /// Of row i, one a unit; only of a quantised matrix.
  const float* scales(std::int64_t i) const { return scales_[static_cast<std::size_t>(i)].data(); }

  /// Writes row i as float32 [k], scales multiplied in.
  void copy_row(float* out, std::int64_t i) const;

 private:
  MatrixSpec spec_;
  DType dtype_;
  std::vector<IntegerUnit> units_;          // of a quantised matrix
  std::vector<float> weights_;              // [n, k]; integers less their zero points
  std::vector<std::vector<float>> scales_;  // [n]; empty unless quantised
};

}  // namespace headrace
