// Operators on single rows: norm, activation, soft-max facts.
#include <cmath>

#include "tests/kernels/op_fixture.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

class RowOps : public OpsTest {};
INSTANTIATE_TEST_SUITE_P(Backends, RowOps, ::testing::ValuesIn(all_backends()), backend_name);

struct RowShape {
  std::int64_t rows;
  std::int64_t cols;
};
constexpr RowShape kShapes[] = {{0, 8},   {1, 1},   {3, 15},   {5, 16},  {2, 17},
                                {7, 100}, {64, 33}, {40, 576}, {9, 1536}};

TEST_P(RowOps, NormHasTheBitsOfTheReference) {
  for (const RowShape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.cols);
    const Tensor x = random_tensor(shape.rows, shape.cols, DType::kFloat32, 1, 3.0F);
    Tensor weight = random_tensor(1, shape.cols, DType::kFloat32, 2);
    Tensor expected(shape.rows, shape.cols, dtype());
    Tensor actual(shape.rows, shape.cols, dtype());
    reference_->rms_norm(expected.view(), x.view(), weight.f32(), 1e-5F);
    fast_->rms_norm(actual.view(), x.view(), weight.f32(), 1e-5F);
    EXPECT_TRUE(same_bits(actual, expected));
  }
}

TEST_P(RowOps, SiluHasTheBitsOfTheReference) {
  for (const RowShape& shape : kShapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.cols);
    const Tensor gate_up = random_tensor(shape.rows, 2 * shape.cols, DType::kFloat32, 3, 20.0F);
    Tensor expected(shape.rows, shape.cols, dtype());
    Tensor actual(shape.rows, shape.cols, dtype());
    reference_->silu_mul(expected.view(), gate_up.view());
    fast_->silu_mul(actual.view(), gate_up.view());
    EXPECT_TRUE(same_bits(actual, expected));
  }
}

TEST_P(RowOps, SiluOfExtremeGatesFollowsTheReference) {
  const std::vector<float> gates = {0.0F,   -0.0F,  88.0F,   -88.0F, 88.5F,
                                    -88.5F, 100.0F, -100.0F, 1e-30F, -1e-30F,
                                    1e-40F, 3e38F,  -3e38F,  -87.3F, INFINITY};
  Tensor gate_up(1, 2 * std::ssize(gates));
  for (std::int64_t i = 0; i < std::ssize(gates); ++i) {
    gate_up.set(i, gates[static_cast<std::size_t>(i)]);
    gate_up.set(std::ssize(gates) + i, 1.5F);
  }
  Tensor expected(1, std::ssize(gates), dtype());
  Tensor actual(1, std::ssize(gates), dtype());
  reference_->silu_mul(expected.view(), gate_up.view());
  fast_->silu_mul(actual.view(), gate_up.view());
  EXPECT_TRUE(same_bits(actual, expected));
}

TEST_P(RowOps, RowStatisticsHaveTheBitsOfTheReference) {
  for (const RowShape shape : {RowShape{0, 10}, RowShape{1, 1}, RowShape{2, 1023},
                               RowShape{2, 1024}, RowShape{3, 1025}, RowShape{2, 5003}}) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.cols);
    const Tensor logits = random_tensor(shape.rows, shape.cols, DType::kFloat32, 4, 8.0F);
    std::vector<RowStatistics> expected(static_cast<std::size_t>(shape.rows));
    std::vector<RowStatistics> actual(static_cast<std::size_t>(shape.rows));
    reference_->row_statistics(expected, logits.view());
    fast_->row_statistics(actual, logits.view());
    for (std::size_t r = 0; r < expected.size(); ++r) {
      EXPECT_EQ(actual[r].max, expected[r].max);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(actual[r].log_sum_exp),
                std::bit_cast<std::uint32_t>(expected[r].log_sum_exp));
    }
  }
}

TEST_P(RowOps, StatisticsOfBannedIdsIgnoreThem) {
  Tensor logits(1, 40);
  for (std::int64_t i = 0; i < 40; ++i) logits.set(i, -INFINITY);
  logits.set(17, -2.5F);
  std::vector<RowStatistics> out(1);
  fast_->row_statistics(out, logits.view());
  EXPECT_EQ(out[0].max, -2.5F);
  EXPECT_EQ(out[0].log_sum_exp, -2.5F);
}

TEST(RowOpsReference, AreCloseToDoublePrecision) {
  const auto ops = make_reference_ops(DType::kFloat32);
  const std::int64_t cols = 300;
  const Tensor x = random_tensor(1, cols, DType::kFloat32, 5, 2.0F);
  Tensor weight = random_tensor(1, cols, DType::kFloat32, 6);
  Tensor norm(1, cols);
  ops->rms_norm(norm.view(), x.view(), weight.f32(), 1e-5F);
  double squares = 0.0;
  double exponentials = 0.0;
  for (std::int64_t i = 0; i < cols; ++i) {
    squares += double{x.at(i)} * x.at(i);
    exponentials += std::exp(double{x.at(i)});
  }
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
  for (std::int64_t i = 0; i < cols; ++i) {
    const double exact = x.at(i) * scale * weight.at(i);
    ASSERT_NEAR(norm.at(i), exact, 5e-7 * std::abs(exact));
  }
  std::vector<RowStatistics> statistics(1);
  ops->row_statistics(statistics, x.view());
  EXPECT_NEAR(statistics[0].log_sum_exp, std::log(exponentials), 1e-6);
  Tensor silu(1, cols / 2);
  ops->silu_mul(silu.view(), x.view());
  for (std::int64_t i = 0; i < cols / 2; ++i) {
    const double exact = x.at(i) / (1.0 + std::exp(-double{x.at(i)})) * x.at(cols / 2 + i);
    ASSERT_NEAR(silu.at(i), exact, 5e-7 * std::abs(exact) + 1e-12);
  }
}

TEST_P(RowOps, AWrongShapeIsNamed) {
  Tensor x(2, 8);
  Tensor out(2, 9, dtype());
  Tensor weight(1, 9);
  try {
    fast_->rms_norm(out.view(), x.view(), weight.f32(), 1e-5F);
    FAIL() << "a view of the wrong width was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("rms_norm: x is [2, 8]"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace headrace
