// The header of one safetensors file:
//
//   u64 length | JSON of that length | tensors' bytes
//   JSON: {"name": {"dtype": "BF16", "shape": [49152, 576], "data_offsets": [begin, end]}, ...}
//
// Little-endian; offsets count from the end of the JSON, and the tensors fill the rest of the file
// without gaps. "__metadata__" may hold strings, which are not used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/checkpoint/input_file.h"

namespace headrace {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                // "F32", "BF16", ...; any type that safetensors has
  std::vector<std::int64_t> shape;  // outermost first
  std::uint64_t offset = 0;         // absolute
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the header's order
  std::uint64_t header_bytes = 0;         // up to the first tensor
};

/// Throws std::invalid_argument naming the file and what is wrong with it.
SafetensorsHeader read_safetensors_header(const InputFile& file);

}  // namespace headrace
