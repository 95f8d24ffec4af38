// Weights of the CPU backend: panels of sixteen columns, [ceil(n / 16)][steps][16] dwords, a dword
// holding consecutive k of one column. One panel row is one 512-bit register, and the same bytes
// serve every instruction set. What is missing to whole panels and steps is zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/ops.h"
#include "kernels/thread_pool.h"

namespace headrace {

class PackedMatrix : public Matrix {
 public:
  std::int64_t n() const override { return n_; }
  std::int64_t k() const override { return k_; }
  int num_values() const override { return num_values_; }
  std::size_t bytes() const override { return panels_.bytes(); }

  virtual Quantization quantization() const = 0;
  QuantizedInputs inputs() const { return inputs_; }

  /// Writes row i, exact, as float32 [k].
  virtual void copy_row(float* out, std::int64_t i) const = 0;

  std::int64_t num_panels() const { return (n_ + kPanelColumns - 1) / kPanelColumns; }
  std::int64_t steps() const { return steps_; }
  const std::uint32_t* panels() const {
    return reinterpret_cast<const std::uint32_t*>(panels_.data());
  }
  const std::vector<Segment>& segments() const { return segments_; }

  /// Dwords of a row of inputs as kernels with that many dwords a step pack it.
  virtual std::int64_t row_dwords(int dwords_per_step) const {
    return packed_row_dwords(steps_, dwords_per_step);
  }

  /// Groups of a row of inputs that have a scale each; none where inputs are not quantised.
  virtual std::int64_t num_input_groups() const { return 0; }

  /// What integers have beside their panels: scales of the columns, and how they are expanded.
  virtual void describe_columns(GemmArgs& args) const = 0;

 protected:
  /// Slices take whole multiples of `slice_multiple` elements, `group` of them a dword. The pool
  /// must outlive the matrix.
  PackedMatrix(const MatrixSpec& spec, int group, int slice_multiple, ThreadPool& pool);

  /// store(begin, end) on the pool's threads, over ranges of that many rows.
  template <class Store>
  void over_rows(std::int64_t num_rows, const Store& store) const {
    const std::int64_t tasks = (num_rows + kRowsPerTask - 1) / kRowsPerTask;
    pool_->parallel_for(static_cast<int>(tasks), [&](int task) {
      store(task * kRowsPerTask, std::min(num_rows, (task + 1) * kRowsPerTask));
    });
  }

  /// The first step of row i; the others are kPanelColumns dwords apart.
  std::uint32_t* column(std::int64_t i) const;

 private:
  // Some 10 to 100 us of work; whole panels, where rows begin with one.
  static constexpr std::int64_t kRowsPerTask = 2 * kPanelColumns;

  ThreadPool* pool_;
  std::int64_t n_;
  std::int64_t k_;
  int num_values_;
  QuantizedInputs inputs_;
  std::vector<Segment> segments_;
  std::int64_t steps_;
  Buffer panels_;
};

/// Weights in the compute type: one float32 a dword, or two bfloat16.
class ComputeMatrix final : public PackedMatrix {
 public:
  ComputeMatrix(const MatrixSpec& spec, DType compute_dtype, ThreadPool& pool);

  Quantization quantization() const override { return Quantization::kNone; }
  void set_rows(std::int64_t first_row, ConstTensorView rows) override;
  void copy_row(float* out, std::int64_t i) const override;
  void describe_columns(GemmArgs& /*args*/) const override {}

 private:
  void set_row(std::int64_t row, const ConstTensorView& rows, std::int64_t first_element);

  int group_;
};

}  // namespace headrace
