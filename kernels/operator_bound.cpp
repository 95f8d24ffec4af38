#include "kernels/operator_bound.h"

#include <algorithm>

namespace headrace {
namespace {

// The first key that a row at `position` sees.
std::int64_t first_key(const AttentionShape& shape, std::int64_t position) {
  return shape.window > 0 ? std::max<std::int64_t>(0, position + 1 - shape.window) : 0;
}

// Bytes of one key or value of one head.
double kept_bytes(const AttentionShape& shape, DType cache_dtype) {
  if (shape.kv_type == KvType::kInt8) return shape.head_dim + 2.0;  // with its scale
  return static_cast<double>(shape.head_dim) * static_cast<double>(dtype_bytes(cache_dtype));
}

double peak_of(const MachinePeaks& peaks, Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kInt8:
      return peaks.int8;
    case Arithmetic::kBFloat16:
      return peaks.bfloat16;
    case Arithmetic::kFloat32:
      break;
  }
  return peaks.float32;
}

}  // namespace

OperatorWork product_work(std::int64_t rows, const Matrix& w) {
  if (rows == 0) return {};
  const double products = static_cast<double>(rows) * static_cast<double>(w.n() * w.k());
  return {.flops = 2.0 * products, .bytes = static_cast<double>(w.bytes())};
}

OperatorWork attention_work(const AttentionShape& shape, DType cache_dtype,
                            std::span<const SequenceRows> sequences) {
  double pairs = 0.0;  // of a row and a key that it sees
  double keys = 0.0;   // that any row of a sequence sees
  for (const SequenceRows& rows : sequences) {
    if (rows.num_rows == 0) continue;
    const std::int64_t first = rows.first_position;
    const std::int64_t end = first + rows.num_rows;
    for (std::int64_t position = first; position < end; ++position) {
      pairs += static_cast<double>(position + 1 - first_key(shape, position));
    }
    keys += static_cast<double>(end - first_key(shape, first));
  }
  // A query times a key, and a weight times a value: 2 flops a dimension each.
  const double head = 4.0 * shape.head_dim;
  return {.flops = pairs * head * shape.num_heads,
          .bytes = keys * 2.0 * kept_bytes(shape, cache_dtype) * shape.num_kv_heads};
}

std::int64_t MachineBound::least_ns(const OperatorWork& work, Arithmetic arithmetic) const {
  const double peak = peak_of(peaks_, arithmetic);  // flops a nanosecond
  if (peak <= 0.0 || peaks_.memory_gigabytes <= 0.0) return 0;
  return static_cast<std::int64_t>(
      std::max(work.flops / peak, work.bytes / peaks_.memory_gigabytes));
}

}  // namespace headrace
