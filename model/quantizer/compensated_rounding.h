// Rounding with compensation: the columns of a row are rounded one after the other, and what each
// loses is made good, as far as the inputs allow, by the columns that are still to come. With
// inputs X it is the greedy way to a small |X (w - w')|^2 by Frantar, Ashkboos, Hoefler and
// Alistarh, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers",
// 2022. Scales and zero points are settled before, with each column's weight in the error; columns
// go in falling order of their inputs' squares. All in double, in one fixed order for each row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/quantize.h"
#include "kernels/thread_pool.h"
#include "model/quantizer/input_statistics.h"

namespace headrace {

class CompensatedRounding {
 public:
  /// For a matrix with these inputs and slices. pool: for this constructor alone.
  CompensatedRounding(const std::vector<GramBlock>& blocks, std::span<const std::int32_t> bounds,
                      Quantization type, ThreadPool& pool);

  /// Quantises one row. Any thread.
  void quantize(const float* values, IntegerRow& out) const;

  const std::vector<IntegerUnit>& units() const { return units_; }

 private:
  struct Block {
    std::int32_t begin = 0;
    std::vector<std::int32_t> order;  // columns of the block
    std::vector<double> factor;  // [size, size], upper: row i says what an error of column i costs
  };

  static Block make_block(const GramBlock& gram, ThreadPool& pool);
  void settle_scales(const float* values, IntegerRow& out) const;
  void round_block(const Block& block, const float* values, IntegerRow& out) const;

  Quantization type_;
  std::vector<IntegerUnit> units_;
  std::vector<std::int32_t> unit_of_;  // of every column
  std::vector<float> importance_;      // the same
  std::vector<Block> blocks_;
};

}  // namespace headrace
