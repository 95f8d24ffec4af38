// Reads blocks of stored tensors: from bytes in a file, whatever their type and the order of their
// rows, to float32 in Hugging Face's order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/dequantize.h"
#include "model/checkpoint/input_file.h"

namespace headrace {

/// Where a matrix lies and how. A vector is one row.
struct StoredMatrix {
  const InputFile* file = nullptr;
  const StoredType* type = nullptr;
  std::uint64_t offset = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  /// Rows of a head (values of a vector) where the file has them in the pairs that RoPE turns (see
  /// StoredForm); 0 where the order is Hugging Face's.
  std::int64_t interleaved_head_dim = 0;
  /// From 0 to cols where the matrix is stored slice by slice: columns [bounds[0], bounds[1]) of
  /// all rows, then the next. Empty: row by row.
  std::span<const std::int64_t> slice_bounds;
};

/// Keeps its buffers from one read to the next. Not thread-safe.
class TensorReader {
 public:
  /// Fills out, [rows, cols] of the block, which must lie in the matrix. Whole rows are read in
  /// pieces of 4 MiB. Of rows that are wanted in part, the wanted bytes alone are read where the
  /// gap between them costs more than another read (8 KiB), else all bytes from the first wanted
  /// one to the last. Throws what InputFile::read throws.
  void read(const StoredMatrix& matrix, const TensorBlock& block, float* out);

  /// How many bytes read() takes from the file.
  static std::uint64_t bytes_to_read(const StoredMatrix& matrix, const TensorBlock& block);

 private:
  /// The wanted part of a row.
  struct RowPiece {
    std::uint64_t offset = 0;  // of its first block in the row
    std::uint64_t bytes = 0;
    std::int64_t num_blocks = 0;
    std::int64_t skipped = 0;  // values of the first block that are not wanted
    std::int64_t values = 0;
  };

  void read_plain(const StoredMatrix& matrix, const TensorBlock& block, float* out);
  void read_slices(const StoredMatrix& matrix, const TensorBlock& block, float* out);
  static RowPiece row_piece(const StoredMatrix& matrix, const TensorBlock& block);
  void read_whole_rows(const StoredMatrix& matrix, const TensorBlock& block, float* out);
  void read_row_pieces(const StoredMatrix& matrix, const TensorBlock& block, float* out);
  void read_heads(const StoredMatrix& matrix, const TensorBlock& block, float* out);
  void read_interleaved_vector(const StoredMatrix& matrix, const TensorBlock& block, float* out);
  std::uint64_t fetch(const StoredMatrix& matrix, const RowPiece& piece, std::int64_t first_row,
                      std::int64_t num_rows);
  void convert(const StoredMatrix& matrix, const RowPiece& piece, std::uint64_t at, float* out);

  std::vector<std::byte> buffer_;  // raw blocks
  std::vector<float> values_;      // of blocks that are wanted in part
  std::vector<float> slice_;       // the block's part of one slice
};

}  // namespace headrace
