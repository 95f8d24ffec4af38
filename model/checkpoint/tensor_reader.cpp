#include "model/checkpoint/tensor_reader.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace headrace {
namespace {

// One read: large enough to keep a parallel file system busy, small enough to stay in the cache of
// the core that converts it. Reads after the first start at multiples of it.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxBlockBytes = 512;  // above that of any type

// What a read of its own costs, in bytes read on the way past them. Measured from the page cache
// with 4 readers: 13.6 GB/s in one piece, 7.9 GB/s in pieces of 8 KiB, so a call costs about 6 KB.
constexpr std::uint64_t kMinGapBytes = std::uint64_t{8} << 10;

std::uint64_t row_bytes(const StoredMatrix& matrix) {
  return static_cast<std::uint64_t>(matrix.cols / matrix.type->block_values *
                                    matrix.type->block_bytes);
}

// Where the file has Hugging Face's row h of a head with head_dim rows: RoPE's pairs (i, head_dim /
// 2 + i) stand beside each other there.
std::int64_t interleaved_row(std::int64_t h, std::int64_t head_dim) {
  const std::int64_t half = head_dim / 2;
  return h < half ? 2 * h : 2 * (h - half) + 1;
}

/// A block's part of one slice, as a block of the slice.
struct SlicePart {
  StoredMatrix slice;
  TensorBlock block;
  std::int64_t first_col = 0;  // in the whole block
};

std::vector<SlicePart> slice_parts(const StoredMatrix& matrix, const TensorBlock& block) {
  const std::uint64_t column_bytes = static_cast<std::uint64_t>(matrix.rows) *
                                     static_cast<std::uint64_t>(matrix.type->block_bytes);
  std::vector<SlicePart> parts;
  for (std::size_t i = 0; i + 1 < matrix.slice_bounds.size(); ++i) {
    const std::int64_t first = matrix.slice_bounds[i];
    const std::int64_t begin = std::max(block.col_begin, first);
    const std::int64_t end = std::min(block.col_end, matrix.slice_bounds[i + 1]);
    if (begin >= end) continue;
    StoredMatrix slice = matrix;
    slice.offset += static_cast<std::uint64_t>(first) * column_bytes;
    slice.cols = matrix.slice_bounds[i + 1] - first;
    slice.slice_bounds = {};
    parts.push_back({slice,
                     {block.row_begin, block.row_end, begin - first, end - first},
                     begin - block.col_begin});
  }
  return parts;
}

}  // namespace

void TensorReader::read(const StoredMatrix& matrix, const TensorBlock& block, float* out) {
  if (block.row_begin == block.row_end || block.col_begin == block.col_end) return;
  if (matrix.slice_bounds.empty()) {
    read_plain(matrix, block, out);
  } else {
    read_slices(matrix, block, out);
  }
}

// Each slice is a matrix of its own, whose part of the block is read and put in its columns.
void TensorReader::read_slices(const StoredMatrix& matrix, const TensorBlock& block, float* out) {
  const std::int64_t out_cols = block.col_end - block.col_begin;
  for (const SlicePart& part : slice_parts(matrix, block)) {
    const std::int64_t cols = part.block.col_end - part.block.col_begin;
    if (cols == out_cols) return read_plain(part.slice, part.block, out);
    const std::int64_t rows = block.row_end - block.row_begin;
    slice_.resize(std::max(slice_.size(), static_cast<std::size_t>(rows * cols)));
    read_plain(part.slice, part.block, slice_.data());
    const float* row = slice_.data();
    float* to = out + part.first_col;
    for (std::int64_t r = 0; r < rows; ++r, row += cols, to += out_cols) {
      std::copy_n(row, cols, to);
    }
  }
}

std::uint64_t TensorReader::bytes_to_read(const StoredMatrix& matrix, const TensorBlock& block) {
  if (block.row_begin == block.row_end || block.col_begin == block.col_end) return 0;
  if (!matrix.slice_bounds.empty()) {
    std::uint64_t bytes = 0;
    for (const SlicePart& part : slice_parts(matrix, block)) {
      bytes += bytes_to_read(part.slice, part.block);
    }
    return bytes;
  }
  const RowPiece piece = row_piece(matrix, block);
  const std::uint64_t gap = row_bytes(matrix) - piece.bytes;
  const auto rows = static_cast<std::uint64_t>(block.row_end - block.row_begin);
  return rows * piece.bytes + (gap >= kMinGapBytes ? 0 : (rows - 1) * gap);
}

void TensorReader::read_plain(const StoredMatrix& matrix, const TensorBlock& block, float* out) {
  if (matrix.interleaved_head_dim > 0 && matrix.rows == 1) {
    read_interleaved_vector(matrix, block, out);
  } else if (matrix.interleaved_head_dim > 0) {
    read_heads(matrix, block, out);
  } else if (block.col_begin == 0 && block.col_end == matrix.cols) {
    read_whole_rows(matrix, block, out);
  } else {
    read_row_pieces(matrix, block, out);
  }
}

// Converts rows that lie one behind the other, piece by piece. A block that a piece cuts is kept at
// the front of the buffer until the next piece has its rest.
void TensorReader::read_whole_rows(const StoredMatrix& matrix, const TensorBlock& block,
                                   float* out) {
  const std::uint64_t bytes = row_bytes(matrix);
  const auto block_bytes = static_cast<std::uint64_t>(matrix.type->block_bytes);
  std::uint64_t position = matrix.offset + static_cast<std::uint64_t>(block.row_begin) * bytes;
  const std::uint64_t last = matrix.offset + static_cast<std::uint64_t>(block.row_end) * bytes;
  std::uint64_t kept = 0;
  buffer_.resize(std::max<std::size_t>(buffer_.size(), kPieceBytes + kMaxBlockBytes));
  while (position < last) {
    const std::uint64_t stop = std::min(last, (position / kPieceBytes + 1) * kPieceBytes);
    matrix.file->read(position, std::span(buffer_).subspan(kept, stop - position));
    const std::uint64_t available = kept + stop - position;
    const std::uint64_t blocks = available / block_bytes;
    matrix.type->to_float(buffer_.data(), static_cast<std::int64_t>(blocks), out);
    out += static_cast<std::int64_t>(blocks) * matrix.type->block_values;
    kept = available % block_bytes;
    std::memmove(buffer_.data(), buffer_.data() + blocks * block_bytes, kept);
    position = stop;
  }
}

void TensorReader::read_row_pieces(const StoredMatrix& matrix, const TensorBlock& block,
                                   float* out) {
  const RowPiece piece = row_piece(matrix, block);
  const auto rows_a_read = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kPieceBytes / std::max(row_bytes(matrix), std::uint64_t{1})));
  for (std::int64_t row = block.row_begin; row < block.row_end; row += rows_a_read) {
    const std::int64_t num_rows = std::min(rows_a_read, block.row_end - row);
    const std::uint64_t stride = fetch(matrix, piece, row, num_rows);
    for (std::int64_t i = 0; i < num_rows; ++i, out += piece.values) {
      convert(matrix, piece, static_cast<std::uint64_t>(i) * stride, out);
    }
  }
}

// Rows in Hugging Face's order. A head that is wanted whole is read at once; of another one only
// the wanted rows are.
void TensorReader::read_heads(const StoredMatrix& matrix, const TensorBlock& block, float* out) {
  const RowPiece piece = row_piece(matrix, block);
  const std::int64_t head_dim = matrix.interleaved_head_dim;
  for (std::int64_t row = block.row_begin; row < block.row_end;) {
    const std::int64_t head = row / head_dim * head_dim;
    const std::int64_t stop = std::min(block.row_end, head + head_dim);
    const bool whole = stop - row == head_dim;
    const std::uint64_t stride = whole ? fetch(matrix, piece, head, head_dim) : 0;
    for (; row < stop; ++row, out += piece.values) {
      const std::int64_t in_head = interleaved_row(row - head, head_dim);
      if (!whole) fetch(matrix, piece, head + in_head, 1);
      convert(matrix, piece, static_cast<std::uint64_t>(in_head) * stride, out);
    }
  }
}

// The bias that goes with interleaved rows: its values are ordered like them.
void TensorReader::read_interleaved_vector(const StoredMatrix& matrix, const TensorBlock& block,
                                           float* out) {
  const std::int64_t head_dim = matrix.interleaved_head_dim;
  std::vector<float> stored(static_cast<std::size_t>(matrix.cols));
  read_whole_rows(matrix, {0, 1, 0, matrix.cols}, stored.data());
  for (std::int64_t col = block.col_begin; col < block.col_end; ++col) {
    const std::int64_t head = col / head_dim * head_dim;
    *out++ = stored[static_cast<std::size_t>(head + interleaved_row(col - head, head_dim))];
  }
}

TensorReader::RowPiece TensorReader::row_piece(const StoredMatrix& matrix,
                                               const TensorBlock& block) {
  const StoredType& type = *matrix.type;
  const std::int64_t first = block.col_begin / type.block_values;
  const std::int64_t last = (block.col_end + type.block_values - 1) / type.block_values;
  return {.offset = static_cast<std::uint64_t>(first * type.block_bytes),
          .bytes = static_cast<std::uint64_t>((last - first) * type.block_bytes),
          .num_blocks = last - first,
          .skipped = block.col_begin - first * type.block_values,
          .values = block.col_end - block.col_begin};
}

// Brings the piece of consecutive stored rows into the buffer; returns the bytes from one to the
// next there.
std::uint64_t TensorReader::fetch(const StoredMatrix& matrix, const RowPiece& piece,
                                  std::int64_t first_row, std::int64_t num_rows) {
  const std::uint64_t bytes = row_bytes(matrix);
  const auto count = static_cast<std::uint64_t>(num_rows);
  const std::uint64_t begin =
      matrix.offset + static_cast<std::uint64_t>(first_row) * bytes + piece.offset;
  const bool apart = bytes - piece.bytes >= kMinGapBytes;
  const std::uint64_t stride = apart ? piece.bytes : bytes;
  const std::uint64_t total = (count - 1) * stride + piece.bytes;
  buffer_.resize(std::max<std::size_t>(buffer_.size(), total));
  if (!apart) {
    matrix.file->read(begin, std::span(buffer_).first(total));
    return stride;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    matrix.file->read(begin + i * bytes, std::span(buffer_).subspan(i * stride, piece.bytes));
  }
  return stride;
}

// Converts the piece of one row, which starts at byte `at` of the buffer.
void TensorReader::convert(const StoredMatrix& matrix, const RowPiece& piece, std::uint64_t at,
                           float* out) {
  const std::int64_t converted = piece.num_blocks * matrix.type->block_values;
  if (converted == piece.values) {
    matrix.type->to_float(buffer_.data() + at, piece.num_blocks, out);
    return;
  }
  values_.resize(std::max(values_.size(), static_cast<std::size_t>(converted)));
  matrix.type->to_float(buffer_.data() + at, piece.num_blocks, values_.data());
  std::copy_n(values_.data() + piece.skipped, piece.values, out);
}

}  // namespace headrace
