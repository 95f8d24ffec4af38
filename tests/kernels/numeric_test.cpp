#include "kernels/numeric.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/flush_denormals.h"

namespace headrace {
namespace {

TEST(Numeric, BFloat16RoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // a tie, down to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // a tie, up to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);  // rounds to infinity
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::infinity()), 0xFF80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x007FFFFFU)), 0x0000);  // denormal
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x80000001U)), 0x8000);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST(Numeric, EveryBFloat16SurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(value) || std::fpclassify(value) == FP_SUBNORMAL) continue;
    ASSERT_EQ(float_to_bf16(value), bits);
  }
}

TEST(Numeric, Float16CoversZeroDenormalsAndInfinity) {
  EXPECT_EQ(f16_to_float(0x3C00), 1.0F);
  EXPECT_EQ(f16_to_float(0xC000), -2.0F);
  EXPECT_EQ(f16_to_float(0x7BFF), 65504.0F);
  EXPECT_EQ(f16_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(f16_to_float(0x83FF), -1023 * 0x1p-24F);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(f16_to_float(0x8000)), 0x80000000U);
  EXPECT_EQ(f16_to_float(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(f16_to_float(0x7E01)));
}

TEST(Numeric, Float16RoundsToNearestEven) {
  EXPECT_EQ(float_to_f16(1.0F), 0x3C00);
  EXPECT_EQ(float_to_f16(1.0F + 0x1p-11F), 0x3C00);      // a tie, down to even
  EXPECT_EQ(float_to_f16(1.0F + 3 * 0x1p-11F), 0x3C02);  // a tie, up to even
  EXPECT_EQ(float_to_f16(1.0F + 0x1.004p-11F), 0x3C01);
  EXPECT_EQ(float_to_f16(65519.0F), 0x7BFF);
  EXPECT_EQ(float_to_f16(65520.0F), 0x7C00);   // rounds to infinity
  EXPECT_EQ(float_to_f16(-0x1p-25F), 0x8000);  // a tie, down to even
  EXPECT_EQ(float_to_f16(-0x1.8p-24F), 0x8002);
  EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(std::bit_cast<float>(0x7F800001U)))));
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_float(static_cast<std::uint16_t>(bits));
    if (!std::isnan(value)) {
      ASSERT_EQ(float_to_f16(value), bits);
    }
  }
}

TEST(Numeric, ExpIsWithinAboutOneUnitInTheLastPlace) {
  double worst = 0.0;
  for (int i = -235'000; i < 237'000; ++i) {
    const float x = static_cast<float>(i) * 0.00037F;  // from -86.95 to 87.69
    const double exact = std::exp(double{x});
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(exp_f32(x) - exact) / unit);
  }
  EXPECT_LT(worst, 1.2);
}

TEST(Numeric, ExpMeetsItsEnds) {
  const FlushDenormals guard;
  EXPECT_EQ(exp_f32(0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-88.0F), 0.0F);
  EXPECT_EQ(exp_f32(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(exp_f32(std::numeric_limits<float>::infinity()),
            std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(exp_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Numeric, TanhIsWithinAFewUnitsInTheLastPlace) {
  double worst = 0.0;
  for (int i = -200'000; i <= 200'000; ++i) {
    const float x = static_cast<float>(i) * 0.0000613F;  // to 12.26
    const double exact = std::tanh(double{x});
    if (exact == 0.0) continue;
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(tanh_f32(x) - exact) / unit);
  }
  EXPECT_LT(worst, 4.0);
  EXPECT_EQ(tanh_f32(0.0F), 0.0F);
  EXPECT_EQ(tanh_f32(1e-20F), 1e-20F);
  EXPECT_EQ(tanh_f32(std::numeric_limits<float>::infinity()), 1.0F);
  EXPECT_EQ(tanh_f32(-std::numeric_limits<float>::max()), -1.0F);
  EXPECT_TRUE(std::isnan(tanh_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Numeric, GeluIsCloseToDoublePrecision) {
  for (int i = -200'000; i <= 200'000; ++i) {
    const float x = static_cast<float>(i) * 0.0000613F;
    const double exact_erf = 0.5 * x * std::erfc(-double{x} / std::sqrt(2.0));
    const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * double{x} * x * x);
    const double exact_tanh = x / (1.0 + std::exp(-2.0 * u));
    ASSERT_NEAR(gelu_erf_f32(x), exact_erf, 1e-7 + 3e-7 * std::abs(exact_erf)) << x;
    ASSERT_NEAR(gelu_tanh_f32(x), exact_tanh, 1e-7 + 3e-7 * std::abs(exact_tanh)) << x;
  }
}

TEST(Numeric, LogIsCloseToTheLibrary) {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> exponent(-300.0, 300.0);
  for (int i = 0; i < 20000; ++i) {
    const double x = std::exp2(exponent(generator));
    ASSERT_NEAR(log_f64(x), std::log(x), 1e-12 + 1e-15 * std::abs(std::log(x))) << x;
  }
  for (int i = 5000; i < 20000; ++i) {
    const double x = i * 0.0001;
    ASSERT_NEAR(log_f64(x), std::log(x), 1e-13) << x;
  }
  EXPECT_EQ(log_f64(1.0), 0.0);
}

TEST(Numeric, DenormalsAreFlushedOnlyWhileAGuardLives) {
  volatile float tiny = 1e-38F;
  volatile float tenth = 0.1F;
  EXPECT_GT(tiny * tenth, 0.0F);
  {
    const FlushDenormals guard;
    const float product = tiny * tenth;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(product), 0U);
  }
  EXPECT_GT(tiny * tenth, 0.0F);
}

}  // namespace
}  // namespace headrace
