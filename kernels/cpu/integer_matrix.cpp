#include "kernels/cpu/integer_matrix.h"

#include <algorithm>

#include "kernels/ceil_div.h"
#include "kernels/numeric.h"
#include "kernels/op_checks.h"
#include "kernels/read_element.h"

namespace headrace {
namespace {

int group_of(Quantization quantization) {
  return elements_per_dword(quantization, DType::kFloat32);
}

// The sign bit of every int8 of a dword: turned, it adds what makes the integer unsigned.
constexpr std::uint32_t kInt8Offsets = 0x80808080U;

// Bits of element i of a dword, from this one on.
int shift_of(Quantization quantization, int i) {
  return quantization == Quantization::kInt4 ? i % 4 * 8 + i / 4 * 4 : i * 8;
}

std::uint32_t packed_int8(const std::int8_t* integers, std::uint32_t offsets) {
  std::uint32_t dword = offsets;
  for (int i = 0; i < 4; ++i) {
    dword ^= static_cast<std::uint32_t>(static_cast<std::uint8_t>(integers[i])) << 8 * i;
  }
  return dword;
}

std::uint32_t packed_int4(const std::int8_t* integers) {
  std::uint32_t dword = 0;
  for (int i = 0; i < 4; ++i) {
    const auto both = static_cast<std::uint8_t>(integers[i] | integers[i + 4] << 4);
    dword |= static_cast<std::uint32_t>(both) << 8 * i;
  }
  return dword;
}

// Row r as float32: where it is, or in `room`.
const float* row_values(const ConstTensorView& rows, std::int64_t r, std::vector<float>& room) {
  if (rows.dtype == DType::kFloat32) return rows.f32() + r * rows.cols;
  for (std::int64_t i = 0; i < rows.cols; ++i) {
    room[static_cast<std::size_t>(i)] = read_element(rows, r * rows.cols + i);
  }
  return room.data();
}

// The first step of every unit, which lie in the slices one after the other.
std::vector<std::int32_t> first_steps(const std::vector<IntegerUnit>& units,
                                      const std::vector<Segment>& slices, int group) {
  std::vector<std::int32_t> steps;
  auto slice = slices.begin();
  for (const IntegerUnit& unit : units) {
    while (unit.begin >= slice->first_element + slice->num_elements) ++slice;
    steps.push_back(slice->begin + (unit.begin - slice->first_element) / group);
  }
  return steps;
}

// The slices where each is filled up to whole pieces that are expanded, in dwords of two elements.
std::vector<Segment> expanded_segments(std::vector<Segment> slices) {
  constexpr int kPieceDwords = kExpandedElements / 2;
  std::int32_t begin = 0;
  for (Segment& slice : slices) {
    slice.begin = begin;
    slice.end = begin + ceil_div(slice.num_elements, kExpandedElements) * kPieceDwords;
    begin = slice.end;
  }
  return slices;
}

}  // namespace

IntegerMatrix::IntegerMatrix(const MatrixSpec& spec, bool signed_int8, ThreadPool& pool)
    : PackedMatrix(spec, group_of(spec.quantization), kIntegerSliceMultiple, pool),
      quantization_(spec.quantization),
      int8_offsets_(signed_int8 ? 0 : kInt8Offsets),
      units_(integer_units(spec.tree.bounds, spec.quantization)),
      first_steps_(first_steps(units_, segments(), group_of(spec.quantization))),
      expanded_segments_(expanded_segments(segments())) {
  const std::size_t count = units_.size() * static_cast<std::size_t>(stride());
  if (int4()) {
    scales16_.resize(count);
    zeros_.resize(count);
  } else {
    scales_.resize(count);
  }
}

std::size_t IntegerMatrix::bytes() const {
  return PackedMatrix::bytes() + scales_.size() * sizeof(float) +
         scales16_.size() * sizeof(std::uint16_t) + zeros_.size();
}

void IntegerMatrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  over_rows(rows.rows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> room(static_cast<std::size_t>(k()));
    IntegerRow integers(k(), units_.size());
    for (std::int64_t r = begin; r < end; ++r) {
      quantize_row(row_values(rows, r, room), units_, quantization_, integers);
      set_integer_rows(first_row + r, integers.view());
    }
  });
}

void IntegerMatrix::set_integer_rows(std::int64_t first_row, const IntegerRows& rows) {
  require_rows_fit(*this, first_row, rows);
  const auto units = static_cast<std::int64_t>(units_.size());
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const std::int64_t row = first_row + r;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      set_unit(row, u, rows.integers + r * k() + units_[u].begin);
      const std::int64_t from = r * units + static_cast<std::int64_t>(u);
      if (int4()) {
        scales16_[scale_index(u, row)] = float_to_f16(rows.scales[from]);
        zeros_[scale_index(u, row)] = rows.zeros[from];
      } else {
        scales_[scale_index(u, row)] = rows.scales[from];
      }
    }
  }
}

void IntegerMatrix::set_unit(std::int64_t row, std::size_t unit, const std::int8_t* integers) {
  const std::int32_t count = units_[unit].end - units_[unit].begin;
  const int group = group_of(quantization_);
  std::uint32_t* out = column(row) + first_steps_[unit] * kPanelColumns;
  std::int32_t i = 0;
  for (; i + group <= count; i += group, out += kPanelColumns) {
    *out = int4() ? packed_int4(integers + i) : packed_int8(integers + i, int8_offsets_);
  }
  if (i == count) return;
  std::int8_t last[8] = {};
  std::copy_n(integers + i, count - i, last);
  *out = int4() ? packed_int4(last) : packed_int8(last, int8_offsets_);
}

void IntegerMatrix::copy_row(float* out, std::int64_t i) const {
  const int group = group_of(quantization_);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const std::uint32_t* source = column(i) + first_steps_[u] * kPanelColumns;
    const std::size_t at = scale_index(u, i);
    const float scale = int4() ? f16_to_float(scales16_[at]) : scales_[at];
    for (std::int32_t c = units_[u].begin; c < units_[u].end; ++c) {
      const std::int32_t in_unit = c - units_[u].begin;
      const std::uint32_t dword =
          source[in_unit / group * kPanelColumns] ^ (int4() ? 0 : int8_offsets_);
      const std::uint32_t bits = dword >> shift_of(quantization_, in_unit % group);
      out[c] = scale * (int4() ? int4_centred(static_cast<std::int8_t>(bits & 0xFU), zeros_[at])
                               : static_cast<float>(static_cast<std::int8_t>(bits)));
    }
  }
}

std::int64_t IntegerMatrix::num_input_groups() const {
  std::int64_t groups = 0;
  for (const Segment& slice : segments()) groups += num_quantization_groups(slice.num_elements);
  return groups;
}

std::int64_t IntegerMatrix::row_dwords(int dwords_per_step) const {
  return num_input_groups() * (kQuantizationGroup / group_of(quantization_)) * dwords_per_step;
}

void IntegerMatrix::describe_columns(GemmArgs& args) const {
  args.column_scales = scales_.data();
  args.column_scales16 = scales16_.data();
  args.column_zeros = zeros_.data();
  args.column_stride = stride();
  args.expanded_segments = expanded_segments_.data();
}

}  // namespace headrace
