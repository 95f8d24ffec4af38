#include "model/quantizer/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace headrace {
namespace {

constexpr std::int32_t kColumns = 96;

class Stochastic : public ::testing::TestWithParam<Quantization> {
 protected:
  Stochastic() : values_(kColumns) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (float& x : values_) x = normal(generator);
  }

  IntegerRow rounded(std::uint64_t seed, std::int64_t row) const {
    IntegerRow out(kColumns, units_.size());
    StochasticRounding(seed, "tensor").quantize(row, values_.data(), units_, GetParam(), out);
    return out;
  }

  double back(const IntegerRow& row, std::int32_t c) const {
    std::size_t u = 0;
    while (c >= units_[u].end) ++u;
    return static_cast<double>(
               int4_centred(row.integers[static_cast<std::size_t>(c)], row.zeros[u])) *
           static_cast<double>(row.scales[u]);
  }

  std::vector<float> values_;
  const std::vector<IntegerUnit> units_ =
      integer_units(std::vector<std::int32_t>{0, 40, kColumns}, GetParam());
};
INSTANTIATE_TEST_SUITE_P(Types, Stochastic,
                         ::testing::Values(Quantization::kInt8, Quantization::kInt4),
                         [](const auto& type) {
                           return std::string(quantization_name(type.param));
                         });

TEST_P(Stochastic, IsOnTheAverageWhatItWas) {
  constexpr int kTimes = 4000;
  IntegerRow nearest(kColumns, units_.size());
  quantize_row(values_.data(), units_, GetParam(), nearest);
  std::vector<double> sums(kColumns);
  for (int time = 0; time < kTimes; ++time) {
    const IntegerRow row = rounded(7, time);
    EXPECT_EQ(row.scales, nearest.scales);
    for (std::int32_t c = 0; c < kColumns; ++c) sums[static_cast<std::size_t>(c)] += back(row, c);
  }
  std::size_t u = 0;
  for (std::int32_t c = 0; c < kColumns; ++c) {
    while (c >= units_[u].end) ++u;
    const auto at = static_cast<std::size_t>(c);
    const auto scale = static_cast<double>(nearest.scales[u]);
    const double exact = static_cast<double>(values_[at]);
    // Outside the range that int4's integers cover there is nothing to choose between.
    if (std::abs(back(nearest, c) - exact) > 0.5001 * scale) continue;
    const int edge = nearest.integers[at];
    if (GetParam() == Quantization::kInt4 && (edge == 0 || edge == 15)) continue;
    EXPECT_NEAR(sums[at] / kTimes, exact, 5.0 * 0.5 * scale / std::sqrt(kTimes)) << c;
  }
}

TEST_P(Stochastic, TakesOneOfTheTwoNearestAndDependsOnTheSeed) {
  IntegerRow nearest(kColumns, units_.size());
  quantize_row(values_.data(), units_, GetParam(), nearest);
  const IntegerRow one = rounded(1, 0);
  int others = 0;
  for (std::size_t c = 0; c < one.integers.size(); ++c) {
    EXPECT_LE(std::abs(one.integers[c] - nearest.integers[c]), 1);
    if (one.integers[c] != nearest.integers[c]) ++others;
  }
  EXPECT_GT(others, 5);
  EXPECT_EQ(one.integers, rounded(1, 0).integers);
  EXPECT_NE(one.integers, rounded(2, 0).integers);
  EXPECT_NE(one.integers, rounded(1, 1).integers);
}

TEST_P(Stochastic, IntegersStayAsTheyAre) {
  for (std::int32_t c = 0; c < kColumns; ++c) {
    values_[static_cast<std::size_t>(c)] = static_cast<float>(c % 16);
  }
  // The ends of the range, so that a step is 1.
  for (const IntegerUnit& unit : units_) {
    values_[static_cast<std::size_t>(unit.begin)] = 0.0F;
    values_[static_cast<std::size_t>(unit.end - 1)] =
        GetParam() == Quantization::kInt4 ? 15.0F : 127.0F;
  }
  const IntegerRow row = rounded(3, 5);
  for (std::int32_t c = 0; c < kColumns; ++c) {
    EXPECT_NEAR(back(row, c), static_cast<double>(values_[static_cast<std::size_t>(c)]), 1e-4) << c;
  }
}

}  // namespace
}  // namespace headrace
