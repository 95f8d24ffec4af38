#include "model/quantizer/stochastic_rounding.h"

#include <algorithm>
#include <cmath>

namespace headrace {
namespace {

// Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// From 0 to 1, exclusive, in steps of 2^-24.
float chance(std::uint64_t seed, std::int32_t column) {
  return static_cast<float>(mixed(seed + static_cast<std::uint64_t>(column)) >> 40) * 0x1p-24F;
}

struct Limits {
  float least = 0.0F;
  float most = 0.0F;
};

std::int8_t rounded(float scaled, float chance, const Limits& limits) {
  if (!std::isfinite(scaled)) return 0;
  const float below = std::floor(scaled);
  const float integer = scaled - below > chance ? below + 1.0F : below;
  return static_cast<std::int8_t>(std::clamp(integer, limits.least, limits.most));
}

}  // namespace

StochasticRounding::StochasticRounding(std::uint64_t seed, std::string_view tensor)
    : seed_(mixed(seed)) {
  for (const char c : tensor) seed_ = mixed(seed_ ^ static_cast<unsigned char>(c));
}

void StochasticRounding::quantize(std::int64_t row, const float* values,
                                  std::span<const IntegerUnit> units, Quantization type,
                                  IntegerRow& out) const {
  const std::uint64_t seed = mixed(seed_ ^ static_cast<std::uint64_t>(row));
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::span<const float> unit(values + units[u].begin, values + units[u].end);
    Int4Scale scale;
    Limits limits{.least = -127.0F, .most = 127.0F};
    if (type == Quantization::kInt4) {
      scale = int4_scale(unit);
      limits = {.least = 0.0F, .most = 15.0F};
    } else {
      const IntegerScale symmetric = int8_scale(unit);
      scale = {.inverse = symmetric.inverse, .scale = symmetric.scale};
    }
    out.scales[u] = scale.scale;
    out.zeros[u] = scale.zero;
    const float zero = static_cast<float>(scale.zero) * 0.0625F;
    for (std::int32_t c = units[u].begin; c < units[u].end; ++c) {
      out.integers[static_cast<std::size_t>(c)] =
          rounded(values[c] * scale.inverse + zero, chance(seed, c), limits);
    }
  }
}

}  // namespace headrace
