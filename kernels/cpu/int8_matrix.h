// Int8 weights of the CPU backend: panels of dwords of four integers plus 128, as the unsigned side
// of the dot product instruction wants them, and a scale for every slice and column.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/packed_matrix.h"

namespace headrace {

class Int8Matrix final : public PackedMatrix {
 public:
  explicit Int8Matrix(const MatrixSpec& spec);

  Quantization quantization() const override { return Quantization::kInt8; }
  std::size_t bytes() const override;
  void set_rows(std::int64_t first_row, ConstTensorView rows) override;
  void copy_row(float* out, std::int64_t i) const override;
  std::int64_t row_dwords(int dwords_per_step) const override;
  void describe_columns(GemmArgs& args) const override;

  /// Groups of inputs over all slices.
  std::int64_t num_groups() const;

 private:
  void set_slice(std::int64_t row, std::size_t slice, const float* values);
  std::int64_t stride() const { return num_panels() * kPanelColumns; }

  std::vector<float> scales_;  // [slices, stride]
};

}  // namespace headrace
