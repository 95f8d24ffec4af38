// The cosines and sines by which RoPE turns the rows of a step.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/device_arena.h"
#include "kernels/ops.h"
#include "model/config.h"

namespace headrace {

class Rotations {
 public:
  /// For steps of up to max_rows rows. The table lies in the arena, which must outlive it.
  Rotations(const RopeConfig& rope, int max_rows, DeviceArena& arena);

  static std::size_t bytes(const RopeConfig& rope, int max_rows);

  /// Computes the table of a step.
  void fill(std::span<const SequenceRows> sequences);

  int rotary_dim() const { return rotary_dim_; }
  /// float32 [rows, rotary_dim], as Ops::rope_and_store_kv wants it.
  const float* table() const { return reinterpret_cast<const float*>(table_.device()); }

 private:
  RopeConfig rope_;
  int rotary_dim_;
  std::vector<float> short_frequencies_;  // [rotary_dim / 2]
  std::vector<float> long_frequencies_;   // the same, of sequences with RopeLength::kLong
  MirroredMemory table_;
};

}  // namespace headrace
