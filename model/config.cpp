#include "model/config.h"

#include <algorithm>
#include <cmath>

namespace headrace {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

// The dimension at which a wave makes `rotations` turns over the original context (yarn, eq. 23 of
// Peng et al., 2023, as transformers writes it).
double yarn_correction_dim(double rotations, const RopeConfig& rope) {
  return rope.rotary_dim * std::log(rope.original_max_position_embeddings / (rotations * kTwoPi)) /
         (2.0 * std::log(rope.theta));
}

}  // namespace

std::vector<float> rope_inverse_frequencies(const RopeConfig& rope) {
  const int half = rope.rotary_dim / 2;
  std::vector<float> frequencies(static_cast<std::size_t>(half));
  for (int i = 0; i < half; ++i) {
    const double exponent = 2.0 * i / rope.rotary_dim;
    frequencies[static_cast<std::size_t>(i)] =
        1.0F / static_cast<float>(std::pow(rope.theta, exponent));
  }
  const auto factor = static_cast<float>(rope.factor);
  switch (rope.scaling) {
    case RopeConfig::Scaling::kNone:
      break;
    case RopeConfig::Scaling::kLinear:
      for (float& f : frequencies) f /= factor;
      break;
    case RopeConfig::Scaling::kLlama3: {
      // Long waves are stretched by the factor, short ones kept, those between blended.
      const double context = rope.original_max_position_embeddings;
      const double long_wave = context / rope.low_freq_factor;
      const double short_wave = context / rope.high_freq_factor;
      for (float& f : frequencies) {
        const double wave = kTwoPi / f;
        if (wave > long_wave) {
          f /= factor;
        } else if (wave >= short_wave) {
          const double smooth = (context / wave - rope.low_freq_factor) /
                                (rope.high_freq_factor - rope.low_freq_factor);
          f = static_cast<float>((1.0 - smooth) * f / rope.factor + smooth * f);
        }
      }
      break;
    }
    case RopeConfig::Scaling::kYarn: {
      double low = yarn_correction_dim(rope.beta_fast, rope);
      double high = yarn_correction_dim(rope.beta_slow, rope);
      if (rope.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
      }
      low = std::max(low, 0.0);
      high = std::min(high, rope.rotary_dim - 1.0);
      if (low == high) high += 0.001;  // transformers' guard against a division by zero
      for (int i = 0; i < half; ++i) {
        float& f = frequencies[static_cast<std::size_t>(i)];
        const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
        f = static_cast<float>(f / rope.factor * ramp + f * (1.0 - ramp));
      }
      break;
    }
  }
  return frequencies;
}

}  // namespace headrace
