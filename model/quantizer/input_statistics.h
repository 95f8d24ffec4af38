// What a calibration keeps of a matrix's inputs X [rows, k]: the sums of their products, XᵀX, in
// blocks of columns along the diagonal, and some of the rows, to measure with.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"

namespace headrace {

/// XᵀX of columns [begin, begin + size).
struct GramBlock {
  std::int32_t begin = 0;
  std::int32_t size = 0;
  std::vector<double> sums;  // [size, size]

  double at(std::int32_t row, std::int32_t col) const {
    return sums[static_cast<std::size_t>(row) * static_cast<std::size_t>(size) +
                static_cast<std::size_t>(col)];
  }
};

class InputStatistics {
 public:
  /// Errors are made good within a block and no further: what that takes grows with the square of
  /// its columns.
  static constexpr std::int32_t kMostBlockColumns = 2048;
  static constexpr std::int64_t kSampleRows = 512;

  /// float32: an Ops of that type, for the products. It must outlive the object.
  InputStatistics(std::int64_t k, Ops& float32);

  /// More inputs, float32 or bfloat16 [rows, k]. Infinities and what is no number count as zeros.
  void add(ConstTensorView x);

  const std::vector<GramBlock>& blocks() const { return blocks_; }

  /// Rows spread over all that were added, bfloat16 [sample_rows, k].
  ConstTensorView sample() const;

 private:
  void add_block(GramBlock& block, const std::vector<float>& rows, std::int64_t num_rows);

  std::int64_t k_;
  Ops& float32_;
  std::vector<GramBlock> blocks_;
  std::vector<std::uint16_t> sample_;  // [sample rows, k]
  std::int64_t num_rows_ = 0;
};

}  // namespace headrace
