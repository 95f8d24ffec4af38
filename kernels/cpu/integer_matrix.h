// Int8 and int4 weights of the CPU backend: panels of dwords of four or eight integers, with an
// offset that makes them unsigned, as the dot product instruction wants that side, and scales of
// the columns. A dword of int4 holds two dwords of int8 side by side: elements 0 to 3 in the low
// halves of its bytes, 4 to 7 in the high ones.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/packed_matrix.h"

namespace headrace {

class IntegerMatrix final : public PackedMatrix {
 public:
  explicit IntegerMatrix(const MatrixSpec& spec);

  Quantization quantization() const override { return quantization_; }
  std::size_t bytes() const override;
  void set_rows(std::int64_t first_row, ConstTensorView rows) override;
  void copy_row(float* out, std::int64_t i) const override;
  std::int64_t row_dwords(int dwords_per_step) const override;
  void describe_columns(GemmArgs& args) const override;

  /// Groups of inputs over all slices.
  std::int64_t num_groups() const;

 private:
  // A run of a row's elements that have one scale: a slice, or a group of one.
  struct Unit {
    std::int32_t first_element = 0;
    std::int32_t num_elements = 0;
    std::int32_t first_step = 0;
  };

  static std::vector<Unit> make_units(const std::vector<Segment>& slices,
                                      Quantization quantization);
  void set_unit(std::int64_t row, std::size_t unit, const float* values);
  std::int64_t stride() const { return num_panels() * kPanelColumns; }
  std::size_t scale_index(std::size_t unit, std::int64_t row) const {
    return unit * static_cast<std::size_t>(stride()) + static_cast<std::size_t>(row);
  }

  Quantization quantization_;
  std::vector<Unit> units_;
  std::vector<float> scales_;  // [units, stride]
};

}  // namespace headrace
