#include "kernels/quantize.h"

namespace headrace {
namespace {

// What the largest magnitude of a group may become. Beyond 7 the largest weights are cut off so
// that the many small ones have finer steps.
constexpr float kLargestIntegers[] = {7.0F, 8.0F, 9.0F, 10.0F};

float squared_error(std::span<const float> values, const IntegerScale& scale) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it and taking it away rounds
  float error = 0.0F;
  for (const float x : values) {
    const float integer = std::min(7.0F, std::max(-8.0F, x * scale.inverse + kRound - kRound));
    const float distance = x - integer * scale.scale;
    error += distance * distance;
  }
  return error;
}

struct Magnitude {
  float largest = 0.0F;
  bool finite = true;
};

Magnitude magnitude_of(std::span<const float> values) {
  Magnitude found;
  for (const float x : values) {
    found.finite = found.finite && std::isfinite(x);
    found.largest = std::max(found.largest, std::fabs(x));
  }
  return found;
}

}  // namespace

IntegerScale int8_scale(std::span<const float> values) {
  const auto [largest, finite] = magnitude_of(values);
  return int8_scale(largest, finite);
}

IntegerScale int4_scale(std::span<const float> values) {
  const auto [largest, finite] = magnitude_of(values);
  IntegerScale best = integer_scale(largest, finite, kLargestIntegers[0]);
  if (!(best.scale > 0.0F)) return best;
  float least = squared_error(values, best);
  for (const float integer : kLargestIntegers) {
    for (const float sign : {1.0F, -1.0F}) {
      const IntegerScale scale = integer_scale(largest, finite, integer);
      const IntegerScale candidate{sign * scale.inverse, sign * scale.scale};
      const float error = squared_error(values, candidate);
      if (error < least) {
        least = error;
        best = candidate;
      }
    }
  }
  return best;
}

}  // namespace headrace
