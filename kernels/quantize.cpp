#include "kernels/quantize.h"

#include "kernels/numeric.h"

namespace headrace {
namespace {

// How much of a group's range the integers cover. Where it is less than all, the outermost weights
// are cut off so that the many others have finer steps.
constexpr float kCoveredRanges[] = {1.0F, 0.95F, 0.9F, 0.85F, 0.8F, 0.75F, 0.7F};
constexpr float kLargestFloat16 = 65504.0F;

struct Range {
  float low = 0.0F;
  float high = 0.0F;
  bool finite = true;
};

// Zero is always within: it has to be among what the integers stand for.
Range range_of(std::span<const float> values) {
  Range range;
  for (const float x : values) {
    range.finite = range.finite && std::isfinite(x);
    range.low = std::min(range.low, x);
    range.high = std::max(range.high, x);
  }
  return range;
}

// The scale and zero point that come nearest to a step and the value of the integer 0.
Int4Scale int4_scale_of(float step, float lowest) {
  const float scale = f16_to_float(float_to_f16(std::min(step, kLargestFloat16)));
  if (!(scale > 0.0F)) return {};
  const float zero = std::nearbyint(-lowest / scale * 16.0F);
  return {1.0F / scale, scale, static_cast<std::uint8_t>(std::clamp(zero, 0.0F, 255.0F))};
}

// Sums over a group, each value counted by its importance, from which the best line through
// (integer, value) follows.
struct Fit {
  float weights = 0.0F;
  float x = 0.0F;
  float q = 0.0F;
  float qq = 0.0F;
  float qx = 0.0F;
  float error = 0.0F;
};

Fit fit_of(std::span<const float> values, std::span<const float> importance,
           const Int4Scale& scale) {
  const float zero = static_cast<float>(scale.zero) * 0.0625F;
  Fit fit;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float x = values[i];
    const float weight = importance.empty() ? 1.0F : importance[i];
    const float q = std::min(
        15.0F, std::max(0.0F, x * scale.inverse + zero + kRoundingOffset - kRoundingOffset));
    const float distance = x - (q - zero) * scale.scale;
    fit.weights += weight;
    fit.x += weight * x;
    fit.q += weight * q;
    fit.qq += weight * (q * q);
    fit.qx += weight * (q * x);
    fit.error += weight * (distance * distance);
  }
  return fit;
}

// The line through the integers of a fit: least squares.
Int4Scale refined(const Fit& fit) {
  const float spread = fit.qq * fit.weights - fit.q * fit.q;
  if (!(spread > 0.0F)) return {};
  const float step = (fit.qx * fit.weights - fit.q * fit.x) / spread;
  return int4_scale_of(step, (fit.x - step * fit.q) / fit.weights);
}

}  // namespace

// Integers compare as the magnitudes do, and infinities and what is no number come last; unlike a
// maximum of floats it is taken of several values at once.
IntegerScale int8_scale(std::span<const float> values) {
  std::int32_t largest = 0;
  for (const float x : values) {
    largest = std::max(largest, std::bit_cast<std::int32_t>(x) & 0x7FFFFFFF);
  }
  return int8_scale(std::bit_cast<float>(largest), largest < 0x7F800000);
}

Int4Scale int4_scale(std::span<const float> values, std::span<const float> importance) {
  const Range range = range_of(values);
  if (!range.finite) return {0.0F, std::numeric_limits<float>::quiet_NaN(), 0};
  Int4Scale best;
  Fit best_fit;
  best_fit.error = std::numeric_limits<float>::infinity();
  const auto consider = [&](const Int4Scale& scale) {
    if (scale.scale == 0.0F) return;
    const Fit fit = fit_of(values, importance, scale);
    if (!(fit.error < best_fit.error)) return;
    best = scale;
    best_fit = fit;
  };
  for (const float covered : kCoveredRanges) {
    consider(int4_scale_of((range.high - range.low) / 15.0F * covered, range.low * covered));
    if (best_fit.error == 0.0F) return best;
  }
  consider(refined(best_fit));
  return best;
}

std::int8_t int4_of(float value, const Int4Scale& scale) {
  const float scaled = value * scale.inverse + static_cast<float>(scale.zero) * 0.0625F;
  if (!std::isfinite(scaled)) return 0;
  return static_cast<std::int8_t>(std::clamp(std::nearbyint(scaled), 0.0F, 15.0F));
}

std::vector<IntegerUnit> integer_units(std::span<const std::int32_t> bounds,
                                       Quantization quantization) {
  std::vector<IntegerUnit> units;
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
    const std::int32_t width =
        quantization == Quantization::kInt4 ? kInt4Group : bounds[s + 1] - bounds[s];
    for (std::int32_t begin = bounds[s]; begin < bounds[s + 1]; begin += width) {
      units.push_back({begin, std::min(begin + width, bounds[s + 1])});
    }
  }
  return units;
}

IntegerRow::IntegerRow(std::int64_t k, std::size_t units)
    : integers(static_cast<std::size_t>(k)), scales(units), zeros(units) {}

IntegerRows IntegerRow::view() const {
  return {.rows = 1, .integers = integers.data(), .scales = scales.data(), .zeros = zeros.data()};
}

void quantize_row(const float* values, std::span<const IntegerUnit> units,
                  Quantization quantization, IntegerRow& out) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::span<const float> unit(values + units[u].begin, values + units[u].end);
    std::int8_t* integers = out.integers.data() + units[u].begin;
    if (quantization == Quantization::kInt4) {
      const Int4Scale scale = int4_scale(unit);
      for (std::size_t i = 0; i < unit.size(); ++i) integers[i] = int4_of(unit[i], scale);
      out.scales[u] = scale.scale;
      out.zeros[u] = scale.zero;
    } else {
      const IntegerScale scale = int8_scale(unit);
      for (std::size_t i = 0; i < unit.size(); ++i) integers[i] = int8_of(unit[i], scale);
      out.scales[u] = scale.scale;
    }
  }
}

}  // namespace headrace
