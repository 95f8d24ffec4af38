// Products on the GPU backend: its own walk over reduction trees. Emulated, the fake cuBLASLt's
// sums are those of the reference, so that trees give the same bits; on a GPU they are close.
#include "tests/kernels/cuda/cuda_fixture.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

class CudaMatmul : public CudaOpsTest {
 protected:
  std::unique_ptr<Ops> deterministic_ = make_hosted_cuda_ops(options(GetParam(), true));
};
INSTANTIATE_TEST_SUITE_P(Types, CudaMatmul, ::testing::Values(DType::kFloat32, DType::kBFloat16),
                         dtype_of);

// Seven slices: ((0 + 1) + (2 + 3)) + ((4 + 5) + 6), some of which wait for others.
ReductionTree tree_of_seven() {
  return {{0, 8, 20, 24, 40, 48, 56, 65}, {0, 1, 0, 2, 0, 1, 2}};
}

struct Product {
  std::int64_t m;
  std::int64_t n;
  bool bias;
  bool add;
};

Tensor multiply(Ops& ops, const Product& p, const ReductionTree& tree) {
  const std::int64_t k = tree.k();
  auto matrix = ops.make_matrix({p.n, k, tree});
  matrix->set_rows(0, random_tensor(p.n, k, ops.compute_dtype(), 2).view());
  const Tensor x = random_tensor(p.m, k, ops.compute_dtype(), 1);
  Tensor bias = random_tensor(1, p.n, DType::kFloat32, 3);
  Tensor out = random_tensor(p.m, p.n, DType::kFloat32, 9);
  const float* bias_values = p.bias ? bias.f32() : nullptr;
  if (p.add) {
    ops.matmul_add(out.view(), x.view(), *matrix, bias_values);
  } else {
    ops.matmul(out.view(), x.view(), *matrix, bias_values);
  }
  return out;
}

::testing::AssertionResult has_sums_of(const Tensor& actual, const Tensor& expected) {
  return is_emulated() ? same_bits(actual, expected) : close_to(actual, expected, {1e-5F, 1e-4F});
}

constexpr Product kProducts[] = {{0, 16, false, false}, {1, 1, true, true},
                                 {3, 31, true, false},  {5, 48, false, true},
                                 {2, 20, false, false}, {300, 260, true, true}};

TEST_P(CudaMatmul, TreesAreWalkedToTheBitsOfTheReference) {
  for (const Product& p : kProducts) {
    SCOPED_TRACE(::testing::Message() << p.m << " x " << p.n);
    const Tensor expected = multiply(*reference_, p, tree_of_seven());
    EXPECT_TRUE(has_sums_of(multiply(*deterministic_, p, tree_of_seven()), expected));
  }
}

TEST_P(CudaMatmul, WithoutTreesAProductIsOneSum) {
  for (const Product& p : kProducts) {
    SCOPED_TRACE(::testing::Message() << p.m << " x " << p.n);
    const Tensor expected = multiply(*reference_, p, ReductionTree::single(65));
    EXPECT_TRUE(has_sums_of(multiply(*cuda_, p, tree_of_seven()), expected));
  }
}

// The last three slices of the tree as one rank has them: two values, (4 + 5) + 6 and what follows.
TEST_P(CudaMatmul, PartsOfRanksAddUpToTheBitsOfTheWhole) {
  const ReductionTree whole = {{0, 8, 20, 32, 40, 57}, {0, 1, 1, 0, 2}};
  const ReductionTree trees[2] = {{{0, 8, 20}, {0, 1}}, {{0, 12, 20, 37}, {0, 0, 1}}};
  const std::vector<std::int32_t> merges = {0, 1, 1};
  const std::int64_t n = 53;
  const Tensor w = random_tensor(n, 57, dtype(), 51);
  Tensor bias = random_tensor(1, n, DType::kFloat32, 52);
  const auto columns = [&](const Tensor& all, std::int64_t begin, std::int64_t end) {
    Tensor part(all.view().rows, end - begin, dtype());
    for (std::int64_t i = 0; i < part.size(); ++i) {
      part.set(i, all.at(i / (end - begin) * 57 + begin + i % (end - begin)));
    }
    return part;
  };
  for (const std::int64_t m : {1, 5, 1100}) {
    const Tensor x = random_tensor(m, 57, dtype(), 53);
    Tensor expected = random_tensor(m, n, DType::kFloat32, 54);
    auto matrix = reference_->make_matrix({n, 57, whole});
    matrix->set_rows(0, w.view());
    reference_->matmul_add(expected.view(), x.view(), *matrix, bias.f32());
    Tensor first(m, n);
    Tensor second(2 * m, n);
    auto part = deterministic_->make_matrix({n, 20, trees[0]});
    part->set_rows(0, columns(w, 0, 20).view());
    deterministic_->matmul_partial(first.view(), columns(x, 0, 20).view(), *part);
    part = deterministic_->make_matrix({n, 37, trees[1]});
    part->set_rows(0, columns(w, 20, 57).view());
    ASSERT_EQ(part->num_values(), 2);
    const Tensor right = columns(x, 20, 57);
    deterministic_->matmul_partial(second.view(), right.view(), *part);
    EXPECT_THROW(deterministic_->matmul(first.view(), right.view(), *part, nullptr),
                 std::invalid_argument);
    const std::vector<const float*> parts = {first.f32(), second.f32(), second.f32() + m * n};
    Tensor sum = random_tensor(m, n, DType::kFloat32, 54);
    deterministic_->add_partials(sum.view(), parts, merges, bias.f32());
    EXPECT_TRUE(has_sums_of(sum, expected)) << m;
  }
}

TEST_P(CudaMatmul, PartialSumsAreAddedInTheirTreeUnderEverySchedule) {
  const std::vector<std::int32_t> merges = {0, 0, 0, 2, 0, 0, 3};
  std::vector<Tensor> tensors;
  std::vector<const float*> parts;
  for (unsigned i = 0; i < 7; ++i) tensors.push_back(random_tensor(9, 130, DType::kFloat32, i));
  for (Tensor& tensor : tensors) parts.push_back(tensor.f32());
  // One value is left of seven parts and six merges.
  std::vector<std::int32_t> all = merges;
  all.back() = 4;
  Tensor expected = random_tensor(9, 130, DType::kFloat32, 90);
  reference_->add_partials(expected.view(), parts, all, nullptr);
  under_schedules([&] {
    Tensor actual = random_tensor(9, 130, DType::kFloat32, 90);
    cuda_->add_partials(actual.view(), parts, all, nullptr);
    EXPECT_TRUE(same_bits(actual, expected));
  });
  EXPECT_THROW(cuda_->add_partials(expected.view(), parts, merges, nullptr), std::invalid_argument);
}

TEST_P(CudaMatmul, QuantisedWeightsAreRefused) {
  EXPECT_THROW(cuda_->make_matrix({4, 16, ReductionTree::single(16), Quantization::kInt8}),
               std::invalid_argument);
}

TEST_P(CudaMatmul, TensorsThatAreAlignedLessThanTheirRowsAreRefused) {
  auto matrix = cuda_->make_matrix({4, 16, ReductionTree::single(16)});
  Tensor x(2, 16, dtype());
  Tensor out(3, 4);
  const TensorView shifted{out.view().data + 4, 2, 4, DType::kFloat32};
  EXPECT_THROW(cuda_->matmul(shifted, x.view(), *matrix, nullptr), std::invalid_argument);
}

TEST(CudaMatmulFloat16, SumsAreFloat32) {
  const auto ops = make_hosted_cuda_ops({.compute_dtype = DType::kFloat16,
                                         .deterministic = true,
                                         .workspace_bytes = std::size_t{1} << 20});
  const auto reference = make_reference_ops(DType::kFloat32);
  const ReductionTree tree = tree_of_seven();
  const Tensor w = random_tensor(40, 65, DType::kFloat16, 2);
  const Tensor x = random_tensor(5, 65, DType::kFloat16, 1);
  Tensor expected(5, 40);
  auto matrix = reference->make_matrix({40, 65, tree});
  matrix->set_rows(0, w.view());
  reference->matmul(expected.view(), converted(x, DType::kFloat32).view(), *matrix, nullptr);
  Tensor actual(5, 40);
  matrix = ops->make_matrix({40, 65, tree});
  matrix->set_rows(0, w.view());
  ops->matmul(actual.view(), x.view(), *matrix, nullptr);
  EXPECT_TRUE(close_to(actual, expected, {1e-5F, 1e-5F}));
}

TEST(CudaBackend, SaysWhatItIsBuiltWith) {
  EXPECT_FALSE(cuda_build().empty());
  EXPECT_THROW(make_cuda_ops({.device = 1000}), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
