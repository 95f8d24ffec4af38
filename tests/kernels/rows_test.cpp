// Operators on single rows: norm, activation, soft-max facts.
#include <cmath>

#include "tests/kernels/row_cases.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

class RowOps : public OpsTest {};
INSTANTIATE_TEST_SUITE_P(Backends, RowOps, ::testing::ValuesIn(all_backends()), backend_name);

constexpr RowShape kShapes[] = {{0, 8},   {1, 1},   {3, 15},   {5, 16},  {2, 17},
                                {7, 100}, {64, 33}, {40, 576}, {9, 1536}};

// Both kinds of norm, with what goes into them.
struct NormCase {
  NormKind kind;
  bool bias;
};
constexpr NormCase kNorms[] = {
    {NormKind::kRms, false}, {NormKind::kLayer, true}, {NormKind::kLayer, false}};

TEST_P(RowOps, NormHasTheBitsOfTheReference) {
  for (const RowShape& shape : kShapes) {
    for (const NormCase& norm_case : kNorms) {
      for (const DType out_dtype : {dtype(), DType::kFloat32}) {
        SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.cols);
        const Tensor x = random_tensor(shape.rows, shape.cols, DType::kFloat32, 1, 3.0F);
        Tensor weight = random_tensor(1, shape.cols, DType::kFloat32, 2);
        Tensor bias = random_tensor(1, shape.cols, DType::kFloat32, 3);
        const Norm norm{.kind = norm_case.kind,
                        .eps = 1e-5F,
                        .weight = weight.f32(),
                        .bias = norm_case.bias ? bias.f32() : nullptr};
        Tensor expected(shape.rows, shape.cols, out_dtype);
        Tensor actual(shape.rows, shape.cols, out_dtype);
        reference_->norm(expected.view(), x.view(), norm);
        fast_->norm(actual.view(), x.view(), norm);
        EXPECT_TRUE(same_bits(actual, expected));
      }
    }
  }
}

TEST_P(RowOps, ANormInPlaceHasTheBitsOfOneIntoAnotherTensor) {
  const Tensor x = random_tensor(5, 50, DType::kFloat32, 1, 3.0F);
  Tensor weight = random_tensor(1, 50, DType::kFloat32, 2);
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    const Norm norm{.kind = kind, .eps = 1e-5F, .weight = weight.f32()};
    Tensor expected(5, 50);
    Tensor actual = random_tensor(5, 50, DType::kFloat32, 1, 3.0F);
    fast_->norm(expected.view(), x.view(), norm);
    fast_->norm(actual.view(), actual.view(), norm);
    EXPECT_TRUE(same_bits(actual, expected));
  }
}

TEST_P(RowOps, PartsOfARowAreNormedEachByItselfAndTheRestStays) {
  const std::int64_t rows = 7;
  const std::int64_t cols = 100;
  for (const RowParts parts :
       {RowParts{3, 20, 4}, RowParts{0, 100, 1}, RowParts{60, 18, 2}, RowParts{90, 10, 0}}) {
    SCOPED_TRACE(::testing::Message() << parts.count << " of " << parts.width);
    const Tensor before = random_tensor(rows, cols, DType::kFloat32, 8, 2.0F);
    Tensor weight = random_tensor(1, parts.width, DType::kFloat32, 9);
    const Norm norm{.eps = 1e-6F, .weight = weight.f32()};
    Tensor expected = random_tensor(rows, cols, DType::kFloat32, 8, 2.0F);
    Tensor actual = random_tensor(rows, cols, DType::kFloat32, 8, 2.0F);
    reference_->norm_parts(expected.view(), parts, norm);
    fast_->norm_parts(actual.view(), parts, norm);
    EXPECT_TRUE(same_bits(actual, expected));
    Tensor part(1, parts.width);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::int64_t in_parts = c - parts.begin;
        if (in_parts < 0 || in_parts >= parts.width * parts.count) {
          ASSERT_EQ(actual.at(r * cols + c), before.at(r * cols + c)) << "row " << r << ", " << c;
        } else if (in_parts % parts.width == 0) {
          for (std::int64_t i = 0; i < parts.width; ++i) part.set(i, before.at(r * cols + c + i));
          fast_->norm(part.view(), part.view(), norm);
          for (std::int64_t i = 0; i < parts.width; ++i) {
            ASSERT_EQ(actual.at(r * cols + c + i), part.at(i));
          }
        }
      }
    }
  }
  Tensor x(1, 10);
  EXPECT_THROW(fast_->norm_parts(x.view(), {4, 3, 3}, {}), std::invalid_argument);
}

TEST_P(RowOps, ActivationsHaveTheBitsOfTheReference) {
  expect_activations(*fast_, *reference_, kShapes);
}

TEST_P(RowOps, ActivationsOfExtremeValuesFollowTheReference) {
  expect_activations_of_extreme_values(*fast_, *reference_);
}

TEST_P(RowOps, ConvertingRoundsAsTheReferenceDoes) {
  for (const RowShape& shape : kShapes) {
    const Tensor x = random_tensor(shape.rows, shape.cols, DType::kFloat32, 11, 3.0F);
    Tensor expected(shape.rows, shape.cols, dtype());
    Tensor actual(shape.rows, shape.cols, dtype());
    reference_->convert(expected.view(), x.view());
    fast_->convert(actual.view(), x.view());
    EXPECT_TRUE(same_bits(actual, expected)) << shape.rows << " x " << shape.cols;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(actual.at(i), dtype() == DType::kBFloat16 ? round_to_bf16(x.at(i)) : x.at(i));
    }
  }
}

TEST_P(RowOps, ScalingAndCappingHaveTheBitsOfTheReference) {
  expect_scaling_and_capping(*fast_, *reference_, kShapes);
}

TEST_P(RowOps, RowStatisticsHaveTheBitsOfTheReference) {
  expect_statistics(*fast_, *reference_);
}

TEST_P(RowOps, StatisticsOfBannedIdsIgnoreThem) {
  expect_statistics_without_banned_ids(*fast_);
}

TEST(RowOpsReference, AreCloseToDoublePrecision) {
  const auto ops = make_reference_ops(DType::kFloat32);
  const std::int64_t cols = 300;
  const Tensor x = random_tensor(1, cols, DType::kFloat32, 5, 2.0F);
  Tensor weight = random_tensor(1, cols, DType::kFloat32, 6);
  Tensor norm(1, cols);
  ops->norm(norm.view(), x.view(), {.eps = 1e-5F, .weight = weight.f32()});
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
  ops->activate(silu.view(), x.view(), Activation::kSilu);
  for (std::int64_t i = 0; i < cols / 2; ++i) {
    const double exact = x.at(i) / (1.0 + std::exp(-double{x.at(i)})) * x.at(cols / 2 + i);
    ASSERT_NEAR(silu.at(i), exact, 5e-7 * std::abs(exact) + 1e-12);
  }
}

TEST(RowOpsReference, ALayerNormIsCloseToDoublePrecision) {
  const auto ops = make_reference_ops(DType::kFloat32);
  const std::int64_t cols = 300;
  Tensor x = random_tensor(1, cols, DType::kFloat32, 5, 2.0F);
  for (std::int64_t i = 0; i < cols; ++i) x.set(i, x.at(i) + 7.0F);  // far from centred
  Tensor weight = random_tensor(1, cols, DType::kFloat32, 6);
  Tensor bias = random_tensor(1, cols, DType::kFloat32, 7);
  Tensor norm(1, cols);
  ops->norm(norm.view(), x.view(),
            {.kind = NormKind::kLayer, .eps = 1e-5F, .weight = weight.f32(), .bias = bias.f32()});
  double mean = 0.0;
  for (std::int64_t i = 0; i < cols; ++i) mean += x.at(i) / static_cast<double>(cols);
  double variance = 0.0;
  for (std::int64_t i = 0; i < cols; ++i) {
    variance += (x.at(i) - mean) * (x.at(i) - mean) / static_cast<double>(cols);
  }
  for (std::int64_t i = 0; i < cols; ++i) {
    const double exact = (x.at(i) - mean) / std::sqrt(variance + 1e-5) * weight.at(i) + bias.at(i);
    ASSERT_NEAR(norm.at(i), exact, 2e-6);
  }
}

TEST_P(RowOps, AWrongShapeIsNamed) {
  Tensor x(2, 8);
  Tensor out(2, 9, dtype());
  Tensor weight(1, 9);
  try {
    fast_->norm(out.view(), x.view(), {.eps = 1e-5F, .weight = weight.f32()});
    FAIL() << "a view of the wrong width was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("norm: x is [2, 8]"), std::string::npos)
        << error.what();
  }
  Tensor three_parts(2, 27);
  EXPECT_THROW(fast_->activate(out.view(), three_parts.view(), Activation::kSilu),
               std::invalid_argument);
}

}  // namespace
}  // namespace headrace
