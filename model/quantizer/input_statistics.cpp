#include "model/quantizer/input_statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/numeric.h"
#include "kernels/read_element.h"

namespace headrace {
namespace {

// Rows whose products are summed in float32; their sums are added in double.
constexpr std::int64_t kRowsAtOnce = 512;

// One row of every so many is kept until there are enough.
constexpr std::int64_t kSampleStride = 8;

}  // namespace

InputStatistics::InputStatistics(std::int64_t k, Ops& float32) : k_(k), float32_(float32) {
  for (std::int64_t begin = 0; begin < k; begin += kMostBlockColumns) {
    const auto size =
        static_cast<std::int32_t>(std::min<std::int64_t>(kMostBlockColumns, k - begin));
    blocks_.push_back({.begin = static_cast<std::int32_t>(begin),
                       .size = size,
                       .sums = std::vector<double>(static_cast<std::size_t>(size) *
                                                   static_cast<std::size_t>(size))});
  }
}

void InputStatistics::add(ConstTensorView x) {
  for (std::int64_t first = 0; first < x.rows; first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, x.rows - first);
    std::vector<float> rows(static_cast<std::size_t>(count * k_));
    for (std::int64_t i = 0; i < count * k_; ++i) {
      const float value = read_element(x, first * k_ + i);
      rows[static_cast<std::size_t>(i)] = std::isfinite(value) ? value : 0.0F;
    }
    for (std::int64_t r = 0; r < count; ++r, ++num_rows_) {
      const bool full = std::ssize(sample_) >= kSampleRows * k_;
      if (full || num_rows_ % kSampleStride != 0) continue;
      for (std::int64_t c = 0; c < k_; ++c) {
        sample_.push_back(float_to_bf16(rows[static_cast<std::size_t>(r * k_ + c)]));
      }
    }
    for (GramBlock& block : blocks_) add_block(block, rows, count);
  }
}

// The columns of the rows are the rows of a matrix, whose product with its transpose is wanted.
void InputStatistics::add_block(GramBlock& block, const std::vector<float>& rows,
                                std::int64_t num_rows) {
  std::vector<float> columns(static_cast<std::size_t>(block.size * num_rows));
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const float* row = rows.data() + r * k_ + block.begin;
    for (std::int64_t c = 0; c < block.size; ++c) {
      columns[static_cast<std::size_t>(c * num_rows + r)] = row[c];
    }
  }
  TensorView view{.data = reinterpret_cast<std::byte*>(columns.data()),
                  .rows = block.size,
                  .cols = num_rows,
                  .dtype = DType::kFloat32};
  auto matrix = float32_.make_matrix(
      {block.size, num_rows, ReductionTree::single(static_cast<std::int32_t>(num_rows))});
  matrix->set_rows(0, view);
  std::vector<float> sums(block.sums.size());
  float32_.matmul({.data = reinterpret_cast<std::byte*>(sums.data()),
                   .rows = block.size,
                   .cols = block.size,
                   .dtype = DType::kFloat32},
                  view, *matrix, nullptr);
  for (std::size_t i = 0; i < sums.size(); ++i) block.sums[i] += static_cast<double>(sums[i]);
}

ConstTensorView InputStatistics::sample() const {
  return {reinterpret_cast<const std::byte*>(sample_.data()), std::ssize(sample_) / k_, k_,
          DType::kBFloat16};
}

}  // namespace headrace
