// The element types of GGUF tensors: names and block sizes. A row is a whole number of blocks.
#pragma once

#include <cstdint>
#include <string_view>

namespace headrace {

/// Values are ggml's, as stored in files. Those listed can be dequantised (dequantize.h);
/// type_layout knows more, so that files with other types can be opened for their metadata.
enum class GgmlType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
};

struct GgmlTypeLayout {
  std::uint32_t type = 0;
  std::string_view name;  // "Q4_1"
  std::int64_t block_values = 0;
  std::int64_t block_bytes = 0;
};

/// nullptr for a number that is no type.
const GgmlTypeLayout* ggml_type_layout(std::uint32_t type);

}  // namespace headrace
