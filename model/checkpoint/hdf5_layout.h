// What a Headrace HDF5 checkpoint is made of, for its reader and its writer alike. FORMAT.md
// describes the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/hdf5_handle.h"
#include "model/checkpoint/input_file.h"
#include "model/checkpoint/integer_layout.h"

namespace headrace {

inline constexpr std::string_view kHdf5Format = "headrace checkpoint";
inline constexpr std::uint64_t kHdf5Version = 1;
inline constexpr std::uint64_t kHdf5IntegerVersion = 2;  // of files with quantised matrices

/// A tensor of the file. Matrices are stored row by row or, where slice_bounds is not empty, slice
/// by slice: columns [bounds[0], bounds[1]) of all rows, then the next.
struct Hdf5Tensor {
  std::string name;                        // canonical
  std::string type;                        // "F32", "BF16", "F16", "INT8", "INT4"
  std::vector<std::int64_t> shape;         // [rows, cols] or [length]
  std::vector<std::int64_t> slice_bounds;  // from 0 to cols; empty: one row behind the other
  std::uint64_t offset = 0;                // in the file
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // XXH3, 64 bits, of the stored bytes

  /// Integers that the matrix is stored as; kNone for plain values.
  Quantization quantization() const;
  /// Where they lie. Only of a quantised matrix; its columns fit an int32.
  IntegerLayout integers() const;
  /// Bytes that shape and type imply.
  std::uint64_t implied_bytes() const;
};

/// A small file of the model the checkpoint was made from, whole or in the parts that a reader of
/// its header needs.
struct Hdf5File {
  std::string name;              // relative, '/' between directories: "tokenizer.json"
  std::uint64_t file_bytes = 0;  // of the original
  std::vector<FileExtent> extents;
  std::uint64_t offset = 0;  // of the first extent's bytes; the others follow
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

/// The HDF5 type of stored values; an id without a type for a name that is none of "F32", "BF16",
/// "F16".
Hdf5Id hdf5_type(std::string_view type);

/// Bytes of a value of a type that hdf5_type() knows.
std::uint64_t hdf5_type_bytes(std::string_view type);

}  // namespace headrace
