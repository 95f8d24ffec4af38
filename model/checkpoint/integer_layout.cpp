#include "model/checkpoint/integer_layout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/numeric.h"

namespace headrace {
namespace {

std::size_t packed_bytes(Quantization type, std::int32_t width) {
  const auto count = static_cast<std::size_t>(width);
  return type == Quantization::kInt4 ? (count + 1) / 2 : count;
}

}  // namespace

void IntegerBlock::resize(std::int64_t num_rows, std::span<const std::int32_t> bounds,
                          Quantization type) {
  rows = num_rows;
  cols = bounds.back();
  units = integer_units(bounds, type);
  integers.resize(static_cast<std::size_t>(rows * cols));
  scales.resize(static_cast<std::size_t>(rows) * units.size());
  zeros.resize(scales.size());
}

IntegerRows IntegerBlock::view() const {
  return {
      .rows = rows, .integers = integers.data(), .scales = scales.data(), .zeros = zeros.data()};
}

void IntegerBlock::dequantize(Quantization type, float* out) const {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::size_t at = static_cast<std::size_t>(r) * units.size() + u;
      const std::uint8_t zero = type == Quantization::kInt4 ? zeros[at] : std::uint8_t{0};
      for (std::int64_t i = r * cols + units[u].begin; i < r * cols + units[u].end; ++i) {
        out[i] = int4_centred(integers[static_cast<std::size_t>(i)], zero) * scales[at];
      }
    }
  }
}

IntegerLayout::IntegerLayout(Quantization type, std::int64_t rows, std::vector<std::int32_t> bounds)
    : type_(type), rows_(rows), bounds_(std::move(bounds)), first_units_{0} {
  for (std::size_t s = 0; s < num_slices(); ++s) {
    const std::int32_t width = bounds_[s + 1] - bounds_[s];
    const std::int32_t units =
        type == Quantization::kInt4 ? (width + kInt4Group - 1) / kInt4Group : 1;
    first_units_.push_back(first_units_.back() + static_cast<std::size_t>(units));
  }
}

std::size_t IntegerLayout::num_units(std::size_t slice) const {
  return first_units_[slice + 1] - first_units_[slice];
}

std::uint64_t IntegerLayout::record_bytes(std::size_t slice) const {
  const std::size_t unit_bytes = type_ == Quantization::kInt4 ? 3 : sizeof(float);
  return packed_bytes(type_, bounds_[slice + 1] - bounds_[slice]) + num_units(slice) * unit_bytes;
}

std::uint64_t IntegerLayout::record_offset(std::size_t slice, std::int64_t row) const {
  std::uint64_t row_bytes = 0;
  for (std::size_t s = 0; s < slice; ++s) row_bytes += record_bytes(s);
  const std::uint64_t before = row_bytes * static_cast<std::uint64_t>(rows_);
  return row == 0 ? before : before + record_bytes(slice) * static_cast<std::uint64_t>(row);
}

IntegerLayout::Slices IntegerLayout::slices_of(std::int64_t col_begin, std::int64_t col_end) const {
  const auto begin = std::find(bounds_.begin(), bounds_.end(), col_begin);
  const auto end = std::find(begin, bounds_.end(), col_end);
  if (begin == bounds_.end() || end == bounds_.end()) return {};
  return {static_cast<std::size_t>(begin - bounds_.begin()),
          static_cast<std::size_t>(end - bounds_.begin())};
}

void IntegerLayout::encode(std::size_t slice, const IntegerRows& row, std::byte* out) const {
  const std::int8_t* integers = row.integers + bounds_[slice];
  const std::int32_t width = bounds_[slice + 1] - bounds_[slice];
  const float* scales = row.scales + first_units_[slice];
  if (type_ == Quantization::kInt8) {
    std::memcpy(out, integers, static_cast<std::size_t>(width));
    std::memcpy(out + width, scales, sizeof(float));
    return;
  }
  for (std::int32_t i = 0; i < width; i += 2) {
    const int high = i + 1 < width ? integers[i + 1] : 0;
    *out++ = static_cast<std::byte>(integers[i] | high << 4);
  }
  for (std::size_t u = 0; u < num_units(slice); ++u, out += 2) {
    const std::uint16_t scale = float_to_f16(scales[u]);
    std::memcpy(out, &scale, sizeof(scale));
  }
  std::memcpy(out, row.zeros + first_units_[slice], num_units(slice));
}

void IntegerLayout::decode(std::size_t slice, std::size_t first, const std::byte* records,
                           IntegerBlock& block) const {
  const std::int32_t width = bounds_[slice + 1] - bounds_[slice];
  const std::size_t bytes = packed_bytes(type_, width);
  const std::size_t units = num_units(slice);
  const std::uint64_t stride = record_bytes(slice);
  for (std::int64_t r = 0; r < block.rows; ++r, records += stride) {
    std::int8_t* out = block.integers.data() + r * block.cols + bounds_[slice] - bounds_[first];
    const std::size_t unit = static_cast<std::size_t>(r) * block.units.size() +
                             first_units_[slice] - first_units_[first];
    if (type_ == Quantization::kInt8) {
      std::memcpy(out, records, bytes);
      std::memcpy(&block.scales[unit], records + bytes, sizeof(float));
      continue;
    }
    for (std::int32_t i = 0; i < width; ++i) {
      const auto both = static_cast<unsigned>(records[i / 2]);
      out[i] = static_cast<std::int8_t>(i % 2 == 0 ? both & 0xFU : both >> 4);
    }
    for (std::size_t u = 0; u < units; ++u) {
      std::uint16_t scale = 0;
      std::memcpy(&scale, records + bytes + 2 * u, sizeof(scale));
      block.scales[unit + u] = f16_to_float(scale);
    }
    std::memcpy(&block.zeros[unit], records + bytes + 2 * units, units);
  }
}

}  // namespace headrace
