#include "model/quantizer/compensated_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace headrace {
namespace {

constexpr std::int64_t kRows = 600;
constexpr std::int32_t kCols = 75;

// Inputs whose columns have much in common, and one that is always zero.
std::vector<float> related_inputs() {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(kRows * kCols));
  for (std::int64_t r = 0; r < kRows; ++r) {
    float common = normal(generator);
    for (std::int32_t c = 0; c < kCols; ++c) {
      if (c % 10 == 0) common = normal(generator);
      const float size = c == 7 ? 0.0F : c == 20 ? 8.0F : 1.0F;
      x[static_cast<std::size_t>(r * kCols + c)] = size * (common + 0.4F * normal(generator));
    }
  }
  return x;
}

class Compensated : public ::testing::TestWithParam<Quantization> {
 protected:
  Compensated() : x_(related_inputs()), statistics_(kCols, *ops_) {
    statistics_.add({reinterpret_cast<const std::byte*>(x_.data()), kRows, kCols, DType::kFloat32});
  }

  std::vector<float> row(unsigned seed) const {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(kCols);
    for (float& value : values) value = normal(generator);
    return values;
  }

  // |x (w - w')|^2
  double error(const std::vector<float>& values, const IntegerRow& integers,
               const std::vector<IntegerUnit>& units) const {
    std::vector<double> difference(kCols);
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (auto c = static_cast<std::size_t>(units[u].begin);
           c < static_cast<std::size_t>(units[u].end); ++c) {
        const std::uint8_t zero =
            GetParam() == Quantization::kInt4 ? integers.zeros[u] : std::uint8_t{0};
        difference[c] = static_cast<double>(values[c]) -
                        static_cast<double>(int4_centred(integers.integers[c], zero)) *
                            static_cast<double>(integers.scales[u]);
      }
    }
    double sum = 0.0;
    for (std::int64_t r = 0; r < kRows; ++r) {
      double product = 0.0;
      for (std::int32_t c = 0; c < kCols; ++c) {
        product += static_cast<double>(x_[static_cast<std::size_t>(r * kCols + c)]) *
                   difference[static_cast<std::size_t>(c)];
      }
      sum += product * product;
    }
    return sum;
  }

  const std::vector<std::int32_t> bounds_ = {0, 40, 75};
  std::unique_ptr<Ops> ops_ = make_reference_ops(DType::kFloat32);
  std::vector<float> x_;
  InputStatistics statistics_;
};
INSTANTIATE_TEST_SUITE_P(Types, Compensated,
                         ::testing::Values(Quantization::kInt8, Quantization::kInt4),
                         [](const auto& tested) {
                           return std::string(quantization_name(tested.param));
                         });

TEST_P(Compensated, StatisticsAreTheSumsOfProducts) {
  double sum = 0.0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    sum += static_cast<double>(x_[static_cast<std::size_t>(r * kCols + 3)]) *
           static_cast<double>(x_[static_cast<std::size_t>(r * kCols + 20)]);
  }
  EXPECT_NEAR(statistics_.blocks().front().at(3, 20), sum, 1e-3 * std::abs(sum));
  EXPECT_EQ(statistics_.sample().rows, (kRows + 7) / 8);
}

TEST_P(Compensated, RoundingLosesLessThanToTheNearest) {
  const auto pool = make_thread_pool(1);
  const CompensatedRounding rounding(statistics_.blocks(), bounds_, GetParam(), *pool);
  const std::vector<IntegerUnit> units = integer_units(bounds_, GetParam());
  double nearest = 0.0;
  double compensated = 0.0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const std::vector<float> values = row(seed);
    IntegerRow integers(kCols, units.size());
    quantize_row(values.data(), units, GetParam(), integers);
    nearest += error(values, integers, units);
    rounding.quantize(values.data(), integers);
    compensated += error(values, integers, units);
    for (const std::int8_t q : integers.integers) {
      ASSERT_TRUE(GetParam() == Quantization::kInt8 ? q >= -127 : q >= 0 && q <= 15);
    }
  }
  EXPECT_LT(compensated, 0.6 * nearest);
}

TEST_P(Compensated, ThreadsDoNotChangeABit) {
  const auto one = make_thread_pool(1);
  const auto three = make_thread_pool(3);
  const CompensatedRounding a(statistics_.blocks(), bounds_, GetParam(), *one);
  const CompensatedRounding b(statistics_.blocks(), bounds_, GetParam(), *three);
  for (unsigned seed = 0; seed < 10; ++seed) {
    const std::vector<float> values = row(seed);
    IntegerRow rows[2] = {{kCols, a.units().size()}, {kCols, a.units().size()}};
    a.quantize(values.data(), rows[0]);
    b.quantize(values.data(), rows[1]);
    EXPECT_EQ(rows[0].integers, rows[1].integers);
    EXPECT_EQ(rows[0].scales, rows[1].scales);
    EXPECT_EQ(rows[0].zeros, rows[1].zeros);
  }
}

TEST_P(Compensated, InputsThatAreAllZeroLeaveTheNearest) {
  InputStatistics none(kCols, *ops_);
  const auto pool = make_thread_pool(1);
  const CompensatedRounding rounding(none.blocks(), bounds_, GetParam(), *pool);
  const std::vector<float> values = row(1);
  IntegerRow actual(kCols, rounding.units().size());
  IntegerRow nearest(kCols, rounding.units().size());
  rounding.quantize(values.data(), actual);
  quantize_row(values.data(), rounding.units(), GetParam(), nearest);
  EXPECT_EQ(actual.scales, nearest.scales);
  EXPECT_EQ(actual.integers, nearest.integers);
}

}  // namespace
}  // namespace headrace
