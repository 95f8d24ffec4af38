#include "kernels/cpu/integer_matrix.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/op_checks.h"
#include "kernels/quantize.h"
#include "kernels/read_element.h"

namespace headrace {
namespace {

int group_of(Quantization quantization) {
  return elements_per_dword(quantization, DType::kFloat32);
}

// The sign bit of every integer of a dword: turned, it adds what makes the integer unsigned.
std::uint32_t offsets_of(Quantization quantization) {
  return quantization == Quantization::kInt4 ? 0x88888888U : 0x80808080U;
}

// Bits of element i of a dword, from this one on.
int shift_of(Quantization quantization, int i) {
  return quantization == Quantization::kInt4 ? i % 4 * 8 + i / 4 * 4 : i * 8;
}

std::uint32_t mask_of(Quantization quantization) {
  return quantization == Quantization::kInt4 ? 0xFU : 0xFFU;
}

IntegerScale scale_of(std::span<const float> values, Quantization quantization) {
  return quantization == Quantization::kInt4 ? int4_scale(values) : int8_scale(values);
}

std::int32_t integer_of(float scaled, Quantization quantization) {
  if (quantization == Quantization::kInt4) return int4_of(scaled);
  return std::isfinite(scaled) ? static_cast<std::int32_t>(std::nearbyint(scaled)) : 0;
}

}  // namespace

std::vector<IntegerMatrix::Unit> IntegerMatrix::make_units(const std::vector<Segment>& slices,
                                                           Quantization quantization) {
  std::vector<Unit> units;
  for (const Segment& slice : slices) {
    const std::int32_t width =
        quantization == Quantization::kInt4 ? kQuantizationGroup : slice.num_elements;
    for (std::int32_t begin = 0; begin < slice.num_elements; begin += width) {
      units.push_back({.first_element = slice.first_element + begin,
                       .num_elements = std::min(width, slice.num_elements - begin),
                       .first_step = slice.begin + begin / group_of(quantization)});
    }
  }
  return units;
}

IntegerMatrix::IntegerMatrix(const MatrixSpec& spec)
    : PackedMatrix(spec, group_of(spec.quantization), kIntegerSliceMultiple),
      quantization_(spec.quantization),
      units_(make_units(segments(), spec.quantization)),
      scales_(units_.size() * static_cast<std::size_t>(stride())) {}

std::size_t IntegerMatrix::bytes() const {
  return PackedMatrix::bytes() + scales_.size() * sizeof(float);
}

void IntegerMatrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  std::vector<float> values(static_cast<std::size_t>(k()));
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    for (std::int64_t i = 0; i < k(); ++i) {
      values[static_cast<std::size_t>(i)] = read_element(rows, r * k() + i);
    }
    for (std::size_t u = 0; u < units_.size(); ++u) {
      set_unit(first_row + r, u, values.data() + units_[u].first_element);
    }
  }
}

void IntegerMatrix::set_unit(std::int64_t row, std::size_t unit, const float* values) {
  const Unit& at = units_[unit];
  const int group = group_of(quantization_);
  const auto count = static_cast<std::size_t>(at.num_elements);
  const IntegerScale scale = scale_of({values, count}, quantization_);
  std::uint32_t* out = column(row) + at.first_step * kPanelColumns;
  for (std::int32_t i = 0; i < at.num_elements; i += group, out += kPanelColumns) {
    std::uint32_t dword = offsets_of(quantization_);
    for (std::int32_t j = 0; j < std::min(group, at.num_elements - i); ++j) {
      const std::int32_t integer = integer_of(values[i + j] * scale.inverse, quantization_);
      dword ^= (static_cast<std::uint32_t>(integer) & mask_of(quantization_))
               << shift_of(quantization_, j);
    }
    *out = dword;
  }
  scales_[scale_index(unit, row)] = scale.scale;
}

void IntegerMatrix::copy_row(float* out, std::int64_t i) const {
  const int group = group_of(quantization_);
  const std::uint32_t mask = mask_of(quantization_);
  const auto sign = static_cast<std::int32_t>((mask + 1) / 2);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const std::uint32_t* source = column(i) + units_[u].first_step * kPanelColumns;
    const float scale = scales_[scale_index(u, i)];
    for (std::int32_t c = 0; c < units_[u].num_elements; ++c) {
      const std::uint32_t dword = source[c / group * kPanelColumns];
      const std::uint32_t bits = dword >> shift_of(quantization_, c % group) & mask;
      out[units_[u].first_element + c] =
          static_cast<float>(static_cast<std::int32_t>(bits) - sign) * scale;
    }
  }
}

std::int64_t IntegerMatrix::num_groups() const {
  std::int64_t groups = 0;
  for (const Segment& slice : segments()) groups += num_quantization_groups(slice.num_elements);
  return groups;
}

std::int64_t IntegerMatrix::row_dwords(int dwords_per_step) const {
  return num_groups() * (kQuantizationGroup / group_of(quantization_)) * dwords_per_step;
}

void IntegerMatrix::describe_columns(GemmArgs& args) const {
  args.column_scales = scales_.data();
  args.column_stride = stride();
}

}  // namespace headrace
