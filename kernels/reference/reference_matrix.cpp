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
  if (!quantized()) return;
  units_ = integer_units(tree().bounds, quantization());
  scales_.resize(static_cast<std::size_t>(n()), std::vector<float>(units_.size()));
}

void ReferenceMatrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  std::vector<float> values(static_cast<std::size_t>(k()));
  IntegerRow integers(k(), units_.size());
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    for (std::int64_t i = 0; i < k(); ++i) {
      values[static_cast<std::size_t>(i)] = read_element(rows, r * k() + i);
    }
    if (quantized()) {
      quantize_row(values.data(), units_, quantization(), integers);
      set_integer_rows(first_row + r, integers.view());
      continue;
    }
    float* out = weights_.data() + (first_row + r) * k();
    for (std::int64_t i = 0; i < k(); ++i) {
      const float value = values[static_cast<std::size_t>(i)];
      out[i] = dtype_ == DType::kBFloat16 ? round_to_bf16(value) : value;
    }
  }
}

void ReferenceMatrix::set_integer_rows(std::int64_t first_row, const IntegerRows& rows) {
  if (!quantized()) return Matrix::set_integer_rows(first_row, rows);
  require_rows_fit(*this, first_row, rows);
  const auto units = static_cast<std::int64_t>(units_.size());
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    float* out = weights_.data() + (first_row + r) * k();
    std::copy_n(rows.scales + r * units, units,
                scales_[static_cast<std::size_t>(first_row + r)].begin());
    for (std::int64_t u = 0; u < units; ++u) {
      const IntegerUnit& unit = units_[static_cast<std::size_t>(u)];
      const std::uint8_t zero =
          quantization() == Quantization::kInt4 ? rows.zeros[r * units + u] : std::uint8_t{0};
      for (std::int32_t i = unit.begin; i < unit.end; ++i) {
        out[i] = int4_centred(rows.integers[r * k() + i], zero);
      }
    }
  }
}

void ReferenceMatrix::copy_row(float* out, std::int64_t i) const {
  std::copy_n(row(i), k(), out);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (std::int32_t c = units_[u].begin; c < units_[u].end; ++c) out[c] *= scales(i)[u];
  }
}

}  // namespace headrace
