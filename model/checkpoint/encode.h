// From float32 to stored elements: the way back from dequantize.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/checkpoint/checkpoint.h"

namespace headrace {

/// The type in which a tensor is written so that it keeps its values, where they are stored ones;
/// quantised ones become what --dtype auto computes with, computed ones float32.
std::string type_to_write(const TensorInfo& info, DType preferred);

/// Stores values as "F32", "BF16" or "F16", without gaps; out needs no alignment. Values that were
/// read from the type get their bits back, NaNs and subnormals included. Others, which only BF16
/// gets, are rounded as the backends round weights (kernels/numeric.h).
void encode(std::string_view type, const float* values, std::int64_t count, std::byte* out);

}  // namespace headrace
