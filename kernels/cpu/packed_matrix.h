// Weights of the CPU backend: panels of sixteen columns, [ceil(n / 16)][ceil(k / group)][16]
// dwords, a dword holding `group` consecutive k of one column. One panel row is one 512-bit
// register, and the same bytes serve every instruction set. Missing columns and the missing half of
// an odd k are zero.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/ops.h"

namespace headrace {

class PackedMatrix final : public Matrix {
 public:
  PackedMatrix(std::int64_t n, const ReductionTree& tree, DType compute_dtype);

  std::int64_t n() const override { return n_; }
  std::int64_t k() const override { return k_; }
  int num_values() const override { return num_values_; }
  std::size_t bytes() const override { return panels_.bytes(); }
  void set_rows(std::int64_t first_row, ConstTensorView rows) override;

  /// Writes row i, exact, as float32 [k].
  void copy_row(float* out, std::int64_t i) const;

  std::int64_t num_panels() const { return (n_ + kPanelColumns - 1) / kPanelColumns; }
  std::int64_t steps() const { return steps_; }
  const std::uint32_t* panels() const {
    return reinterpret_cast<const std::uint32_t*>(panels_.data());
  }
  const std::vector<Segment>& segments() const { return segments_; }

 private:
  std::uint32_t* column(std::int64_t i) const;

  std::int64_t n_;
  std::int64_t k_;
  int num_values_;
  int group_;
  std::int64_t steps_;
  std::vector<Segment> segments_;
  Buffer panels_;
};

}  // namespace headrace
