#include "model/rotations.h"

#include <algorithm>
#include <cmath>

namespace headrace {

Rotations::Rotations(const RopeConfig& rope, int max_rows, DeviceArena& arena)
    : rope_(rope),
      rotary_dim_(rope.rotary_dim),
      short_frequencies_(rope_inverse_frequencies(rope, RopeLength::kShort)),
      long_frequencies_(rope_inverse_frequencies(rope, RopeLength::kLong)),
      table_(arena, bytes(rope, max_rows)) {}

std::size_t Rotations::bytes(const RopeConfig& rope, int max_rows) {
  return static_cast<std::size_t>(rope.rotary_dim) * static_cast<std::size_t>(max_rows) *
         sizeof(float);
}

// Angles in float32 as transformers takes them, functions in double, so that the rounded result
// does not hang on a library's last bit.
void Rotations::fill(std::span<const SequenceRows> sequences) {
  const auto rotary = static_cast<std::size_t>(rotary_dim_);
  const std::size_t half = rotary / 2;
  const double factor = rope_.attention_factor;
  std::int32_t num_rows = 0;
  auto* table = reinterpret_cast<float*>(table_.host());
  for (const SequenceRows& sequence : sequences) {
    const bool is_long = rope_length(rope_, sequence.max_length) == RopeLength::kLong;
    const std::vector<float>& frequencies = is_long ? long_frequencies_ : short_frequencies_;
    for (int i = 0; i < sequence.num_rows; ++i) {
      float* row = table + static_cast<std::size_t>(sequence.first_row + i) * rotary;
      const auto position = static_cast<float>(sequence.first_position + i);
      for (std::size_t d = 0; d < half; ++d) {
        const auto angle = static_cast<double>(position * frequencies[d]);
        row[d] = static_cast<float>(std::cos(angle) * factor);
        row[half + d] = static_cast<float>(std::sin(angle) * factor);
      }
    }
    num_rows = std::max(num_rows, sequence.first_row + sequence.num_rows);
  }
  table_.to_device(bytes(rope_, num_rows));
}

}  // namespace headrace
