// Values that are drawn by their place: the same ones whoever makes them, host or device, in
// whatever order. What stands in for a model's weights where only speed is of interest.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/numeric.h"

namespace headrace {

/// The finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// 2014): every bit of the counter reaches every bit of the result.
HR_HOST_DEVICE inline std::uint64_t mixed_bits(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

/// How the values of a tensor are drawn: uniformly around a centre, each one a bfloat16's.
struct RandomValues {
  float centre = 0.0F;
  float half_width = 0.0F;
  std::uint64_t stream = 0;

  HR_HOST_DEVICE float operator()(std::uint64_t index) const {
    const std::uint64_t bits = mixed_bits(stream + (index + 1) * 0x9e3779b97f4a7c15U);
    const float unit = static_cast<float>(static_cast<std::int64_t>(bits) >> 40) * 0x1p-23F;
    return round_to_bf16(centre + half_width * unit);
  }
};

/// Rows of a matrix of such values, each so many values behind the one before.
struct RandomRows {
  RandomValues values;
  std::uint64_t first = 0;  // index of the first row's first value
  std::uint64_t stride = 0;
  std::int64_t rows = 0;
};

}  // namespace headrace
