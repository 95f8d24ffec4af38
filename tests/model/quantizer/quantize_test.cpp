#include "kernels/quantize.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/numeric.h"

namespace headrace {
namespace {

double squared_error(const std::vector<float>& values, const Int4Scale& scale) {
  double error = 0.0;
  for (const float x : values) {
    const float back = int4_centred(int4_of(x, scale), scale.zero) * scale.scale;
    error += std::pow(static_cast<double>(x - back), 2.0);
  }
  return error;
}

// GGUF's Q4_1: d * q + m, both float16, with the ends of the range in use.
TEST(Int4, GivesBlocksOfQ41BackUpToTheZeroPointsSteps) {
  std::mt19937 generator(1);
  std::uniform_int_distribution<int> integer(0, 15);
  for (int block = 0; block < 200; ++block) {
    const float d = f16_to_float(float_to_f16(0.001F * static_cast<float>(1 + block)));
    const float m = f16_to_float(float_to_f16(-d * 0.07F * static_cast<float>(1 + block)));
    std::vector<float> values;
    std::vector<int> integers = {0, 15};
    while (integers.size() < 32) integers.push_back(integer(generator));
    for (const int q : integers) values.push_back(d * static_cast<float>(q) + m);
    const Int4Scale scale = int4_scale(values);
    EXPECT_EQ(scale.scale, d);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(int4_of(values[i], scale), integers[i]);
      ASSERT_NEAR(int4_centred(static_cast<std::int8_t>(integers[i]), scale.zero) * scale.scale,
                  values[i], d / 31.0F);
    }
  }
}

TEST(Int4, IsNoWorseThanCoveringTheWholeRange) {
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  double whole = 0.0;
  double best = 0.0;
  for (int group = 0; group < 100; ++group) {
    std::vector<float> values(32);
    for (float& x : values) x = normal(generator);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    Int4Scale plain;
    plain.scale = f16_to_float(float_to_f16((*high - *low) / 15.0F));
    plain.inverse = 1.0F / plain.scale;
    plain.zero = static_cast<std::uint8_t>(std::nearbyint(-*low / plain.scale * 16.0F));
    whole += squared_error(values, plain);
    best += squared_error(values, int4_scale(values));
  }
  EXPECT_LT(best, 0.95 * whole);
}

TEST(Int4, ImportanceMovesTheErrorToWhatCountsLess) {
  std::vector<float> values(32, 0.1F);
  values[0] = 3.0F;
  values[1] = -0.05F;
  std::vector<float> importance(32, 1.0F);
  importance[0] = 1e-6F;
  const Int4Scale even = int4_scale(values);
  const Int4Scale weighted = int4_scale(values, importance);
  const auto error = [&](const Int4Scale& scale, std::size_t i) {
    return std::abs(int4_centred(int4_of(values[i], scale), scale.zero) * scale.scale - values[i]);
  };
  EXPECT_LT(error(weighted, 5), error(even, 5));
  EXPECT_GT(error(weighted, 0), error(even, 0));
}

TEST(Int4, OddGroupsHaveAScaleOrNone) {
  EXPECT_EQ(int4_scale(std::vector<float>(7, 0.0F)).scale, 0.0F);
  EXPECT_EQ(int4_scale(std::vector<float>(7, 1e-20F)).scale, 0.0F);
  EXPECT_TRUE(std::isnan(int4_scale(std::vector<float>{1.0F, std::nanf("")}).scale));
  const std::vector<float> positive(5, 2.0F);
  EXPECT_NEAR(int4_centred(int4_of(2.0F, int4_scale(positive)), int4_scale(positive).zero) *
                  int4_scale(positive).scale,
              2.0F, 2e-3F);
  const std::vector<float> huge(3, 1e9F);
  EXPECT_TRUE(std::isfinite(int4_scale(huge).scale));
  EXPECT_EQ(int4_of(std::nanf(""), int4_scale(positive)), 0);
}

}  // namespace
}  // namespace headrace
