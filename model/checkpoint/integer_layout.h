// How a checkpoint keeps the rows of a quantised matrix (FORMAT.md, "Integers"): slice by slice, in
// a slice row by row, and of each row a record: its integers, then the scales of its units. So a
// record has all that a rank needs of it, and what any rank owns is one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/quantize.h"

namespace headrace {

/// Rows of a quantised matrix in memory, whole slices of them.
struct IntegerBlock {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<IntegerUnit> units;     // from the block's first column on
  std::vector<std::int8_t> integers;  // [rows, cols]
  std::vector<float> scales;          // [rows, units]
  std::vector<std::uint8_t> zeros;    // [rows, units]

  /// Room for rows whose slices are cut at bounds, from 0 on.
  void resize(std::int64_t num_rows, std::span<const std::int32_t> bounds, Quantization type);
  IntegerRows view() const;
  /// All of it as float32, [rows, cols].
  void dequantize(Quantization type, float* out) const;
};

class IntegerLayout {
 public:
  /// type: kInt8 or kInt4. bounds: of the slices, from 0 to the number of columns, rising.
  IntegerLayout(Quantization type, std::int64_t rows, std::vector<std::int32_t> bounds);

  Quantization type() const { return type_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return bounds_.back(); }
  const std::vector<std::int32_t>& bounds() const { return bounds_; }
  std::size_t num_slices() const { return bounds_.size() - 1; }

  /// Of one row in a slice.
  std::uint64_t record_bytes(std::size_t slice) const;
  /// Where the record of a row in a slice begins, from the matrix's first byte on.
  std::uint64_t record_offset(std::size_t slice, std::int64_t row) const;
  /// Of the whole matrix.
  std::uint64_t bytes() const { return record_offset(num_slices(), 0); }

  /// The slices whose columns are exactly [col_begin, col_end): first and behind the last. Equal
  /// ones where the columns cut a slice.
  struct Slices {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  Slices slices_of(std::int64_t col_begin, std::int64_t col_end) const;

  /// Writes the record of a slice of one row. units, integers, scales and zeros: of the whole row.
  void encode(std::size_t slice, const IntegerRows& row, std::byte* out) const;

  /// Reads a slice's records of block.rows rows into a block that begins with slice `first`.
  void decode(std::size_t slice, std::size_t first, const std::byte* records,
              IntegerBlock& block) const;

 private:
  std::size_t num_units(std::size_t slice) const;

  Quantization type_;
  std::int64_t rows_;
  std::vector<std::int32_t> bounds_;
  std::vector<std::size_t> first_units_;  // [slices + 1]
};

}  // namespace headrace
