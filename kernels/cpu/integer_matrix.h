// Int8 and int4 weights of the CPU backend: panels of dwords of four or eight unsigned integers, as
// the dot product instruction wants that side (int8 with an offset of 128, unless kernels take it
// as it is), and scales of the columns. A dword of int4 holds two dwords of int8 side by side:
// elements 0 to 3 in the low halves of its bytes, 4 to 7 in the high ones.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/quantize.h"

namespace headrace {

class IntegerMatrix final : public PackedMatrix {
 public:
  /// signed_int8: whether int8 stays signed, as the kernels of the instruction set want it.
  IntegerMatrix(const MatrixSpec& spec, bool signed_int8, ThreadPool& pool);

  Quantization quantization() const override { return quantization_; }
  std::size_t bytes() const override;
  void set_rows(std::int64_t first_row, ConstTensorView rows) override;
  void set_integer_rows(std::int64_t first_row, const IntegerRows& rows) override;
  void copy_row(float* out, std::int64_t i) const override;
  std::int64_t row_dwords(int dwords_per_step) const override;
  void describe_columns(GemmArgs& args) const override;

  std::int64_t num_input_groups() const override;

 private:
  bool int4() const { return quantization_ == Quantization::kInt4; }
  void set_unit(std::int64_t row, std::size_t unit, const std::int8_t* integers);
  std::int64_t stride() const { return num_panels() * kPanelColumns; }
  std::size_t scale_index(std::size_t unit, std::int64_t row) const {
    return unit * static_cast<std::size_t>(stride()) + static_cast<std::size_t>(row);
  }

  Quantization quantization_;
  std::uint32_t int8_offsets_;  // of a dword of int8
  std::vector<IntegerUnit> units_;
  std::vector<std::int32_t> first_steps_;  // [units]
  std::vector<float> scales_;              // [units, stride], of int8
  std::vector<std::uint16_t> scales16_;    // the same, float16, of int4
  std::vector<std::uint8_t> zeros_;        // [units, stride], of int4
  std::vector<Segment> expanded_segments_;
};

}  // namespace headrace
