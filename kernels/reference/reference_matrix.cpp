#include "kernels/reference/reference_matrix.h"

#include <algorithm>
#include <utility>

#include "kernels/op_checks.h"
#include "kernels/read_element.h"
#include "kernels/reference/reference_math.h"

namespace headrace {

ReferenceMatrix::ReferenceMatrix(MatrixSpec spec, DType compute_dtype)
    : spec_(std::move(spec)), dtype_(compute_dtype) {
  require_matrix(spec_, compute_dtype);
  weights_.resize(static_cast<std::size_t>(n() * k()));
  if (quantized()) scales_.resize(static_cast<std::size_t>(n()));
}

void ReferenceMatrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  float* out = weights_.data() + first_row * k();
  for (std::int64_t i = 0; i < rows.rows * rows.cols; ++i) {
    const float value = read_element(rows, i);
    out[i] = dtype_ == DType::kBFloat16 && !quantized() ? round_to_bf16(value) : value;
  }
  if (!quantized()) return;
  for (std::int64_t r = first_row; r < first_row + rows.rows; ++r) {
    scales_[static_cast<std::size_t>(r)] =
        quantize_weights(weights_.data() + r * k(), tree(), quantization());
  }
}

void ReferenceMatrix::copy_row(float* out, std::int64_t i) const {
  std::copy_n(row(i), k(), out);
  if (!quantized()) return;
  const float* scale = scales(i);
  for (int s = 0; s < tree().num_slices(); ++s) {
    const auto slice = static_cast<std::size_t>(s);
    const std::int32_t end = tree().bounds[slice + 1];
    const std::int32_t begin = tree().bounds[slice];
    const std::int32_t width =
        quantization() == Quantization::kInt4 ? kQuantizationGroup : end - begin;
    for (std::int32_t c = begin; c < end; ++c) {
      if (c > begin && (c - begin) % width == 0) ++scale;
      out[c] *= *scale;
    }
    ++scale;
  }
}

}  // namespace headrace
