// From stored elements to float32. Formulas and block layouts are ggml's; every product and sum is
// rounded to float32 once, in ggml's order, so that values equal those of other readers bit for
// bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/checkpoint/ggml_types.h"

namespace headrace {

/// How elements lie in a file, and how they become float32. Plain data with static lifetime.
struct StoredType {
  std::string_view name;  // "F32", "BF16", "Q4_1", ...
  std::int64_t block_values = 0;
  std::int64_t block_bytes = 0;
  /// Converts whole blocks; out has room for num_blocks * block_values values. No alignment is
  /// needed.
  void (*to_float)(const std::byte* blocks, std::int64_t num_blocks, float* out) = nullptr;
};

/// nullptr for a type that cannot be read.
const StoredType* stored_type(GgmlType type);

/// "F32, F16, BF16, Q4_0, ...": what stored_type knows, for messages.
std::string_view stored_type_names();

}  // namespace headrace
