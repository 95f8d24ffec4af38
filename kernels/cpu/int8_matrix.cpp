#include "kernels/cpu/int8_matrix.h"

#include <algorithm>
#include <cmath>

#include "kernels/op_checks.h"
#include "kernels/quantize.h"
#include "kernels/read_element.h"

namespace headrace {
namespace {

constexpr int kGroup = elements_per_dword(Quantization::kInt8, DType::kFloat32);

// 128 in each byte: added to an int8, and taken away, by turning its sign bit.
constexpr std::uint32_t kOffsets = 0x80808080U;

Int8Scale scale_of(const float* values, std::int64_t count) {
  float largest = 0.0F;
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(values[i]);
    largest = std::max(largest, std::fabs(values[i]));
  }
  return int8_scale(largest, finite);
}

}  // namespace

Int8Matrix::Int8Matrix(const MatrixSpec& spec)
    : PackedMatrix(spec, kGroup, kInt8SliceMultiple),
      scales_(segments().size() * static_cast<std::size_t>(stride())) {}

std::size_t Int8Matrix::bytes() const {
  return PackedMatrix::bytes() + scales_.size() * sizeof(float);
}

void Int8Matrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  std::vector<float> values(static_cast<std::size_t>(k()));
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    for (std::int64_t i = 0; i < k(); ++i) {
      values[static_cast<std::size_t>(i)] = read_element(rows, r * k() + i);
    }
    for (std::size_t s = 0; s < segments().size(); ++s) {
      set_slice(first_row + r, s, values.data() + segments()[s].first_element);
    }
  }
}

void Int8Matrix::set_slice(std::int64_t row, std::size_t slice, const float* values) {
  const Segment& segment = segments()[slice];
  const Int8Scale scale = scale_of(values, segment.num_elements);
  std::uint32_t* out = column(row) + segment.begin * kPanelColumns;
  for (std::int32_t i = 0; i < segment.num_elements; i += kGroup, out += kPanelColumns) {
    std::uint32_t dword = kOffsets;
    for (std::int32_t j = 0; j < std::min(kGroup, segment.num_elements - i); ++j) {
      const float scaled = values[i + j] * scale.inverse;
      const auto integer =
          std::isfinite(scaled) ? static_cast<std::int32_t>(std::nearbyint(scaled)) : 0;
      dword ^= static_cast<std::uint32_t>(static_cast<std::uint8_t>(integer)) << (8 * j);
    }
    *out = dword;
  }
  const auto at = slice * static_cast<std::size_t>(stride()) + static_cast<std::size_t>(row);
  scales_[at] = scale.scale;
}

void Int8Matrix::copy_row(float* out, std::int64_t i) const {
  for (std::size_t s = 0; s < segments().size(); ++s) {
    const Segment& segment = segments()[s];
    const std::uint32_t* source = column(i) + segment.begin * kPanelColumns;
    const float scale =
        scales_[s * static_cast<std::size_t>(stride()) + static_cast<std::size_t>(i)];
    for (std::int32_t c = 0; c < segment.num_elements; ++c) {
      const std::uint32_t dword = source[c / kGroup * kPanelColumns] ^ kOffsets;
      const auto integer = static_cast<std::int8_t>(dword >> (8 * (c % kGroup)));
      out[segment.first_element + c] = static_cast<float>(integer) * scale;
    }
  }
}

std::int64_t Int8Matrix::num_groups() const {
  std::int64_t groups = 0;
  for (const Segment& slice : segments()) groups += num_int8_groups(slice.num_elements);
  return groups;
}

std::int64_t Int8Matrix::row_dwords(int dwords_per_step) const {
  return num_groups() * (kInt8Group / kGroup) * dwords_per_step;
}

void Int8Matrix::describe_columns(GemmArgs& args) const {
  args.column_scales = scales_.data();
  args.column_stride = stride();
}

}  // namespace headrace
