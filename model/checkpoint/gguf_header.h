// The header of one GGUF file: metadata and tensor table, as the file stores them.
//
//   "GGUF" | u32 version | u64 tensors | u64 keys | keys | tensor table | padding | tensors' bytes
//   key:    string name | u32 kind | value        string: u64 length | bytes
//   tensor: string name | u32 dimensions | u64 each, innermost first | u32 type | u64 offset
//
// All little-endian; offsets count from the first multiple of general.alignment (32 without it)
// after the table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/checkpoint/gguf_file.h"
#include "model/checkpoint/input_file.h"

namespace headrace {

struct GgufHeader {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  // in the file's order; .file is 0
  std::uint64_t header_bytes = 0;   // up to the end of the tensor table
};

/// Throws std::invalid_argument naming the file and what is wrong with it.
GgufHeader read_gguf_header(const InputFile& file);

}  // namespace headrace
