#include "model/config.h"

#include <algorithm>
#include <cmath>

namespace headrace {
namespace {

// Every step below is rounded to float32 where torch does it, and in the same order: a scalar
// divided by a tensor is the reciprocal times the scalar there.

constexpr double kTwoPi = 6.283185307179586476925286766559;

// The dimension at which a wave makes `rotations` turns over the original context (yarn, eq. 23 of
// Peng et al., 2023, as transformers writes it).
double yarn_correction_dim(double rotations, const RopeConfig& rope) {
  return rope.rotary_dim * std::log(rope.original_max_position_embeddings / (rotations * kTwoPi)) /
         (2.0 * std::log(rope.theta));
}

// theta to the power of 2i / rotary_dim: the wave length of pair i in radians a turn.
float wave_radius(const RopeConfig& rope, std::size_t i) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.rotary_dim);
  return static_cast<float>(
      std::pow(static_cast<double>(static_cast<float>(rope.theta)), static_cast<double>(exponent)));
}

// Long waves are stretched by the factor, short ones kept, those between blended.
float llama3_frequency(const RopeConfig& rope, float frequency) {
  const double context = rope.original_max_position_embeddings;
  const auto long_wave = static_cast<float>(context / rope.low_freq_factor);
  const auto short_wave = static_cast<float>(context / rope.high_freq_factor);
  const auto factor = static_cast<float>(rope.factor);
  const float wave = 1.0F / frequency * static_cast<float>(kTwoPi);
  if (wave > long_wave) return frequency / factor;
  if (wave < short_wave) return frequency;
  const float smooth =
      (1.0F / wave * static_cast<float>(context) - static_cast<float>(rope.low_freq_factor)) /
      static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

// Pairs that turn often within the original context keep their frequency, slow ones are stretched
// by the factor, with a ramp over the pairs between.
void apply_yarn(const RopeConfig& rope, std::vector<float>& frequencies) {
  double low = yarn_correction_dim(rope.beta_fast, rope);
  double high = yarn_correction_dim(rope.beta_slow, rope);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rope.rotary_dim - 1.0);
  if (low == high) high += 0.001;  // transformers' guard against a division by zero
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F,
        1.0F);
    const float kept = 1.0F - ramp;
    const float stretched = 1.0F / (static_cast<float>(rope.factor) * wave_radius(rope, i));
    frequencies[i] = stretched * (1.0F - kept) + frequencies[i] * kept;
  }
}

}  // namespace

RopeLength rope_length(const RopeConfig& rope, int max_length) {
  const bool beyond = max_length > rope.original_max_position_embeddings;
  return rope.scaling == RopeConfig::Scaling::kLong && beyond ? RopeLength::kLong
                                                              : RopeLength::kShort;
}

std::vector<float> rope_inverse_frequencies(const RopeConfig& rope, RopeLength length) {
  std::vector<float> frequencies(static_cast<std::size_t>(rope.rotary_dim) / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0F / wave_radius(rope, i);
  switch (rope.scaling) {
    case RopeConfig::Scaling::kNone:
      break;
    case RopeConfig::Scaling::kLinear:
      for (float& f : frequencies) f /= static_cast<float>(rope.factor);
      break;
    case RopeConfig::Scaling::kLlama3:
      for (float& f : frequencies) f = llama3_frequency(rope, f);
      break;
    case RopeConfig::Scaling::kYarn:
      apply_yarn(rope, frequencies);
      break;
    case RopeConfig::Scaling::kLong: {
      const std::vector<float>& divisors =
          length == RopeLength::kLong ? rope.long_divisors : rope.short_divisors;
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        frequencies[i] = 1.0F / (divisors[i] * wave_radius(rope, i));
      }
      break;
    }
  }
  for (std::size_t i = 0; i < rope.frequency_divisors.size(); ++i) {
    frequencies[i] /= rope.frequency_divisors[i];
  }
  return frequencies;
}

}  // namespace headrace
