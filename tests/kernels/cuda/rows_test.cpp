// Operators on single rows, on the GPU backend in emulation.
#include <cmath>

#include "tests/kernels/activated_cases.h"
#include "tests/kernels/best_logits_cases.h"
#include "tests/kernels/cuda/cuda_fixture.h"
#include "tests/kernels/row_cases.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

class CudaRows : public CudaOpsTest {};
INSTANTIATE_TEST_SUITE_P(Types, CudaRows, all_cuda_dtypes(), dtype_of);

constexpr RowShape kShapes[] = {{0, 8},   {1, 1},   {3, 15},   {5, 16},
                                {2, 257}, {7, 100}, {2, 1028}, {2, 1030}};

const AttentionShape kAnyShape{.num_heads = 1, .num_kv_heads = 1, .head_dim = 2};

TEST_P(CudaRows, EmbeddingCopiesTheNamedRows) {
  for (const std::int64_t k : {1, 24, 300}) {
    const Tensor table = random_tensor(50, k, DType::kFloat32, 4);
    const std::vector<std::int32_t> ids = {7, 0, 49, 7, 12};
    auto expected_matrix =
        reference_->make_matrix({50, k, ReductionTree::single(static_cast<std::int32_t>(k))});
    auto matrix = cuda_->make_matrix({50, k, ReductionTree::single(static_cast<std::int32_t>(k))});
    expected_matrix->set_rows(0, converted(table, dtype()).view());
    matrix->set_rows(0, table.view());
    cuda_->reserve(5, 16, kAnyShape);
    under_schedules([&] {
      Tensor expected(5, k);
      Tensor actual(5, k);
      reference_->embed(expected.view(), *expected_matrix, ids);
      cuda_->embed(actual.view(), *matrix, ids);
      EXPECT_TRUE(same_bits(actual, expected));
    });
    Tensor out(1, k);
    EXPECT_THROW(cuda_->embed(out.view(), *matrix, std::vector<std::int32_t>{50}),
                 std::invalid_argument);
  }
}

TEST_P(CudaRows, WeightsThatAreDrawnOnTheDeviceAreThoseThatTheHostDraws) {
  const RandomValues values{.centre = 0.25F, .half_width = 1.5F, .stream = 0x123456789abcdefU};
  for (const std::int64_t k : {1, 20, 301}) {
    const RandomRows drawn{.values = values, .first = 1000003, .stride = 3 * 401, .rows = 6};
    Tensor rows(6, k);
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      rows.set(i, values(drawn.first + static_cast<std::uint64_t>(i / k) * drawn.stride +
                         static_cast<std::uint64_t>(i % k)));
    }
    const MatrixSpec spec{9, k, ReductionTree::single(static_cast<std::int32_t>(k))};
    auto expected = reference_->make_matrix(spec);
    expected->set_rows(2, converted(rows, dtype()).view());
    cuda_->reserve(6, 16, kAnyShape);
    const std::vector<std::int32_t> ids = {2, 3, 4, 5, 6, 7};
    Tensor expected_rows(6, k);
    reference_->embed(expected_rows.view(), *expected, ids);
    under_schedules([&] {
      auto matrix = cuda_->make_matrix(spec);
      ASSERT_TRUE(matrix->make_rows(2, drawn));
      Tensor actual(6, k);
      cuda_->embed(actual.view(), *matrix, ids);
      EXPECT_TRUE(same_bits(actual, expected_rows));
      EXPECT_THROW(matrix->make_rows(4, drawn), std::invalid_argument);
    });
  }
}

TEST_P(CudaRows, TheBestLogitsAreThoseOfTheWholeProduct) {
  const std::vector<HeadCase> cases = {
      {0, 16}, {1, 1}, {3, 17, {.soft_cap = 2.0F}}, {5, 1025, {.scale = 0.25F}}, {2, 2100}};
  under_schedules([&] { expect_best_logits(*cuda_, {}, cases); });
}

TEST_P(CudaRows, AnActivatedProductIsWhatTheActivationMakesOfIt) {
  const std::vector<ActivatedCase> cases = {{0, 16}, {1, 16, true, true}, {3, 17}, {5, 40, false}};
  under_schedules([&] { expect_activated_products(*cuda_, {}, cases); });
}

TEST_P(CudaRows, ARowWithALogitThatIsNotFiniteHasNoBest) {
  under_schedules([&] { expect_no_best_logit_where_one_is_not_finite(*cuda_); });
}

struct NormCase {
  NormKind kind;
  bool bias;
};

TEST_P(CudaRows, NormsAreThoseOfTheReference) {
  for (const RowShape& shape : kShapes) {
    for (const NormCase& norm_case :
         {NormCase{NormKind::kRms, false}, NormCase{NormKind::kLayer, true}}) {
      if (shape.rows == 0) continue;
      SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.cols);
      const Tensor x = random_tensor(shape.rows, shape.cols, DType::kFloat32, 1, 3.0F);
      Tensor weight = random_tensor(1, shape.cols, DType::kFloat32, 2);
      Tensor bias = random_tensor(1, shape.cols, DType::kFloat32, 3);
      const Norm norm{.kind = norm_case.kind,
                      .eps = 1e-5F,
                      .weight = weight.f32(),
                      .bias = norm_case.bias ? bias.f32() : nullptr};
      Tensor expected(shape.rows, shape.cols);
      reference_->norm(expected.view(), x.view(), norm);
      under_schedules([&] {
        Tensor actual(shape.rows, shape.cols, dtype());
        cuda_->norm(actual.view(), x.view(), norm);
        EXPECT_TRUE(close_to(actual, expected, {2 * unit_of(dtype()), 4e-6F}));
        Tensor in_place = random_tensor(shape.rows, shape.cols, DType::kFloat32, 1, 3.0F);
        cuda_->norm(in_place.view(), in_place.view(), norm);
        EXPECT_TRUE(close_to(in_place, expected, {1e-6F, 4e-6F}));
        EXPECT_TRUE(same_bits(converted(in_place, dtype()), actual));
      });
    }
  }
}

TEST_P(CudaRows, ARowIsNormedAlikeWhateverIsBesideIt) {
  Tensor weight = random_tensor(1, 700, DType::kFloat32, 2);
  for (const std::int64_t cols : {60, 700}) {
    const Tensor x = random_tensor(5, cols, DType::kFloat32, 1, 3.0F);
    const Norm norm{.eps = 1e-5F, .weight = weight.f32()};
    Tensor all(5, cols);
    cuda_->norm(all.view(), x.view(), norm);
    for (std::int64_t r = 0; r < 5; ++r) {
      Tensor one(1, cols);
      cuda_->norm(one.view(), {x.view().data + r * cols * 4, 1, cols, DType::kFloat32}, norm);
      EXPECT_EQ(std::memcmp(one.f32(), all.f32() + r * cols, one.view().bytes()), 0);
    }
  }
}

TEST_P(CudaRows, PartsOfARowAreNormedEachByItselfAndTheRestStays) {
  for (const RowParts parts :
       {RowParts{3, 20, 4}, RowParts{4, 600, 1}, RowParts{60, 18, 2}, RowParts{8, 64, 9}}) {
    SCOPED_TRACE(::testing::Message() << parts.count << " of " << parts.width);
    Tensor weight = random_tensor(1, parts.width, DType::kFloat32, 9);
    const Norm norm{.eps = 1e-6F, .weight = weight.f32()};
    Tensor expected = random_tensor(7, 612, DType::kFloat32, 8, 2.0F);
    reference_->norm_parts(expected.view(), parts, norm);
    under_schedules([&] {
      Tensor actual = random_tensor(7, 612, DType::kFloat32, 8, 2.0F);
      cuda_->norm_parts(actual.view(), parts, norm);
      EXPECT_TRUE(close_to(actual, expected, {1e-6F, 4e-6F}));
    });
  }
}

TEST_P(CudaRows, ConvertingRoundsAsTheReferenceDoes) {
  for (const RowShape& shape : kShapes) {
    if (shape.rows == 0) continue;
    const Tensor x = random_tensor(shape.rows, shape.cols, DType::kFloat32, 11, 3.0F);
    under_schedules([&] {
      Tensor actual(shape.rows, shape.cols, dtype());
      cuda_->convert(actual.view(), x.view());
      EXPECT_TRUE(same_bits(actual, converted(x, dtype())));
    });
  }
}

TEST_P(CudaRows, ActivationsHaveTheBitsOfTheReference) {
  expect_activations(*cuda_, *reference_, kShapes);
}

TEST_P(CudaRows, ActivationsOfExtremeValuesFollowTheReference) {
  expect_activations_of_extreme_values(*cuda_, *reference_);
}

TEST_P(CudaRows, ScalingAndCappingHaveTheBitsOfTheReference) {
  expect_scaling_and_capping(*cuda_, *reference_, kShapes);
}

TEST_P(CudaRows, RowStatisticsHaveTheBitsOfTheReference) {
  cuda_->reserve(3, 16, kAnyShape);
  under_schedules([&] { expect_statistics(*cuda_, *reference_); });
  Tensor more(4, 10);
  std::vector<RowStatistics> four(4);
  EXPECT_THROW(cuda_->row_statistics(four, more.view()), std::invalid_argument);
}

TEST_P(CudaRows, StatisticsOfBannedIdsIgnoreThem) {
  cuda_->reserve(1, 16, kAnyShape);
  expect_statistics_without_banned_ids(*cuda_);
}

TEST_P(CudaRows, AWrongShapeIsNamed) {
  Tensor x(2, 8);
  Tensor out(2, 9, dtype());
  EXPECT_THROW(cuda_->norm(out.view(), x.view(), {}), std::invalid_argument);
  EXPECT_THROW(cuda_->convert(out.view(), x.view()), std::invalid_argument);
  EXPECT_THROW(cuda_->norm_parts(x.view(), {4, 3, 3}, {}), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
