#include "kernels/quantize.h"

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/numeric.h"

namespace headrace {
namespace {

// How much of a group's range the integers cover. Where it is less than all, the outermost weights
// are cut off so that the many others have finer steps.
constexpr float kCoveredRanges[] = {1.0F, 0.95F, 0.9F, 0.85F, 0.8F, 0.75F, 0.7F};
// Weights that lie within this part of a step of the integers come from a file of 4 bits: what is
// left of their error is the zero point's rounding, and a finer step would only cut some off.
constexpr float kOnGrid = 1.0F / 16.0F;
constexpr float kLargestFloat16 = 65504.0F;

// Four floats at a time, which every processor has registers for.
using Lanes = float __attribute__((vector_size(16)));
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(float);
constexpr std::size_t kGroupLanes = kInt4Group / kLanes;
static_assert(kGroupLanes * kLanes == kInt4Group);

// The weights of a group, filled up with zeros, and what the error of each counts: nothing for what
// was filled in.
struct Group {
  Lanes values[kGroupLanes] = {};
  Lanes importance[kGroupLanes] = {};
};

constexpr std::array<float, kInt4Group> kAllTheSame = [] {
  std::array<float, kInt4Group> ones{};
  ones.fill(1.0F);
  return ones;
}();

Group group_of(std::span<const float> values, std::span<const float> importance) {
  Group group;
  std::memcpy(group.values, values.data(), values.size_bytes());
  if (importance.empty()) importance = std::span(kAllTheSame).first(values.size());
  std::memcpy(group.importance, importance.data(), importance.size_bytes());
  return group;
}

float sum_of(const Lanes& lanes) {
  auto sums = std::bit_cast<std::array<float, kLanes>>(lanes);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

float total_importance(const Group& group) {
  Lanes sums{};
  for (const Lanes& counts : group.importance) sums += counts;
  return sum_of(sums);
}

struct Range {
  float low = 0.0F;
  float high = 0.0F;
};

// Zero is always within: it has to be among what the integers stand for.
Range range_of(const Group& group) {
  Lanes low{};
  Lanes high{};
  for (const Lanes& x : group.values) {
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  const auto lows = std::bit_cast<std::array<float, kLanes>>(low);
  const auto highs = std::bit_cast<std::array<float, kLanes>>(high);
  return {*std::ranges::min_element(lows), *std::ranges::max_element(highs)};
}

// Integers compare as the magnitudes do, and infinities and what is no number come last; unlike a
// maximum of floats it is taken of several values at once.
std::int32_t largest_magnitude(std::span<const float> values) {
  std::int32_t largest = 0;
  for (const float x : values) {
    largest = std::max(largest, std::bit_cast<std::int32_t>(x) & 0x7FFFFFFF);
  }
  return largest;
}
constexpr std::int32_t kInfinityBits = 0x7F800000;

// The scale and zero point that come nearest to a step and the value of the integer 0.
Int4Scale int4_scale_of(float step, float lowest) {
  const float scale = f16_to_float(float_to_f16(std::min(step, kLargestFloat16)));
  if (!(scale > 0.0F)) return {};
  const float zero = -lowest / scale * 16.0F + kRoundingOffset - kRoundingOffset;
  return {1.0F / scale, scale, static_cast<std::uint8_t>(std::clamp(zero, 0.0F, 255.0F))};
}

// The integers that stand for weights, as float32.
Lanes nearest(const Lanes& x, const Int4Scale& scale, float zero) {
  const Lanes lowest{};
  const Lanes highest = lowest + 15.0F;
  const Lanes q = x * scale.inverse + zero + kRoundingOffset - kRoundingOffset;
  const Lanes raised = q < lowest ? lowest : q;
  return raised > highest ? highest : raised;
}

// The sum of squared errors.
float error_of(const Group& group, const Int4Scale& scale) {
  const float zero = static_cast<float>(scale.zero) * 0.0625F;
  Lanes sums{};
  for (std::size_t i = 0; i < kGroupLanes; ++i) {
    const Lanes& x = group.values[i];
    const Lanes distance = x - (nearest(x, scale, zero) - zero) * scale.scale;
    sums += group.importance[i] * (distance * distance);
  }
  return sum_of(sums);
}

// The line through (integer, value) that comes nearest to all, each counted by its importance:
// least squares.
Int4Scale refined(const Group& group, const Int4Scale& scale) {
  const float zero = static_cast<float>(scale.zero) * 0.0625F;
  Lanes xs{};
  Lanes qs{};
  Lanes qqs{};
  Lanes qxs{};
  for (std::size_t i = 0; i < kGroupLanes; ++i) {
    const Lanes& weight = group.importance[i];
    const Lanes& x = group.values[i];
    const Lanes q = nearest(x, scale, zero);
    xs += weight * x;
    qs += weight * q;
    qqs += weight * (q * q);
    qxs += weight * (q * x);
  }
  const float total = total_importance(group);
  const float x = sum_of(xs);
  const float q = sum_of(qs);
  const float spread = sum_of(qqs) * total - q * q;
  if (!(spread > 0.0F)) return {};
  const float step = (sum_of(qxs) * total - q * x) / spread;
  return int4_scale_of(step, (x - step * q) / total);
}

}  // namespace

IntegerScale int8_scale(std::span<const float> values) {
  const std::int32_t largest = largest_magnitude(values);
  return int8_scale(std::bit_cast<float>(largest), largest < kInfinityBits);
}

Int4Scale int4_scale(std::span<const float> values, std::span<const float> importance) {
  if (values.size() > kInt4Group) {
    throw std::invalid_argument("int4: a group of " + std::to_string(values.size()) +
                                " weights, at most " + std::to_string(kInt4Group));
  }
  if (largest_magnitude(values) >= kInfinityBits) {
    return {0.0F, std::numeric_limits<float>::quiet_NaN(), 0};
  }
  const Group group = group_of(values, importance);
  const Range range = range_of(group);
  const float counts = total_importance(group);
  Int4Scale best;
  float least = std::numeric_limits<float>::infinity();
  const auto consider = [&](const Int4Scale& scale) {
    if (scale.scale == 0.0F) return;
    const float error = error_of(group, scale);
    if (!(error < least)) return;
    best = scale;
    least = error;
  };
  for (const float covered : kCoveredRanges) {
    consider(int4_scale_of((range.high - range.low) / 15.0F * covered, range.low * covered));
    const float step = best.scale * kOnGrid;
    if (least <= step * step * counts) break;
  }
  consider(refined(group, best));
  return best;
}

std::int8_t int4_of(float value, const Int4Scale& scale) {
  const float scaled = value * scale.inverse + static_cast<float>(scale.zero) * 0.0625F;
  if (!std::isfinite(scaled)) return 0;
  return static_cast<std::int8_t>(
      std::clamp(scaled + kRoundingOffset - kRoundingOffset, 0.0F, 15.0F));
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
