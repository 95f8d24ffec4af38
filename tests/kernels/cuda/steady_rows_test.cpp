// Algorithms of a cuBLASLt whose rows depend on how many there are, or on their place: the backend
// finds them out, takes another one, or gives products always as many rows.
#include <cstring>
#include <string>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/cuda/cuda_fixture.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

constexpr std::int64_t kColumns = 36;
constexpr std::int64_t kInner = 65;
constexpr std::int64_t kRows = 300;

// A product with its weights, over a library with these algorithms.
class SteadyRows : public ::testing::TestWithParam<DType> {
 protected:
  ~SteadyRows() override { fake_cuda::configure({}); }

  void make(const std::string& algorithms, bool deterministic) {
    matrix_.reset();
    ops_.reset();
    warnings_.clear();
    fake_cuda::configure({.algorithms = algorithms});
    ops_ =
        make_hosted_cuda_ops({.compute_dtype = GetParam(),
                              .deterministic = deterministic,
                              .workspace_bytes = std::size_t{1} << 20,
                              .warn = [&](const std::string& text) { warnings_.push_back(text); }});
    matrix_ = ops_->make_matrix({kColumns, kInner, tree_});
    matrix_->set_rows(0, random_tensor(kColumns, kInner, GetParam(), 2).view());
  }

  // The product of rows [begin, begin + rows), added to something.
  std::vector<float> of(std::int64_t begin, std::int64_t rows) {
    const std::size_t row_bytes = kInner * dtype_bytes(GetParam());
    const Tensor part = random_tensor(kRows, kInner, GetParam(), 1);
    Tensor x(rows, kInner, GetParam());
    std::memcpy(x.view().data, part.view().data + static_cast<std::size_t>(begin) * row_bytes,
                static_cast<std::size_t>(rows) * row_bytes);
    Tensor out(rows, kColumns);
    for (std::int64_t i = 0; i < out.size(); ++i) out.set(i, 0.25F);
    ops_->matmul_add(out.view(), x.view(), *matrix_, nullptr);
    return {out.f32(), out.f32() + out.size()};
  }

  // Whether some rows have the bits that they have among all.
  bool are_steady() {
    const std::vector<float> all = of(0, kRows);
    for (const auto& [begin, rows] : {std::pair{0, 1}, {7, 3}, {0, 16}, {30, 17}, {3, 257}}) {
      const std::vector<float> part = of(begin, rows);
      const float* same = all.data() + begin * kColumns;
      if (std::memcmp(part.data(), same, part.size() * sizeof(float)) != 0) return false;
    }
    return true;
  }

  std::vector<float> reference() {
    const auto ops = make_reference_ops(reference_dtype(GetParam()));
    auto matrix = ops->make_matrix({kColumns, kInner, tree_});
    matrix->set_rows(0, random_tensor(kColumns, kInner, GetParam(), 2).view());
    Tensor out(kRows, kColumns);
    for (std::int64_t i = 0; i < out.size(); ++i) out.set(i, 0.25F);
    const Tensor x = random_tensor(kRows, kInner, GetParam(), 1);
    ops->matmul_add(out.view(), x.view(), *matrix, nullptr);
    return {out.f32(), out.f32() + out.size()};
  }

  void expect_warning(const std::string& text) {
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_NE(warnings_[0].find(text), std::string::npos) << warnings_[0];
  }

  ReductionTree tree_ = ReductionTree::single(kInner);
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Matrix> matrix_;
  std::vector<std::string> warnings_;
};
INSTANTIATE_TEST_SUITE_P(Types, SteadyRows, ::testing::Values(DType::kFloat32, DType::kBFloat16),
                         dtype_of);

TEST_P(SteadyRows, AreTakenAsTheyCome) {
  make("s", false);
  EXPECT_TRUE(are_steady());
  EXPECT_EQ(of(0, kRows), reference());
  EXPECT_TRUE(warnings_.empty());
}

TEST_P(SteadyRows, ComeFromTheFirstAlgorithmThatHasThem) {
  for (const bool deterministic : {false, true}) {
    for (const char* algorithms : {"ms", "ps", "ompsm"}) {
      make(algorithms, deterministic);
      EXPECT_TRUE(are_steady()) << algorithms;
      EXPECT_EQ(of(0, kRows), reference()) << algorithms;
      EXPECT_TRUE(warnings_.empty()) << algorithms;
    }
  }
}

TEST_P(SteadyRows, AreFilledUpToOneNumberWhereNoAlgorithmHasThem) {
  for (const char* algorithms : {"m", "o", "pm"}) {
    make(algorithms, true);
    EXPECT_TRUE(are_steady()) << algorithms;
    expect_warning(
        "36 x 65 whose rows have the same bits among any number of others: rows are taken 256");
  }
}

TEST_P(SteadyRows, GoOneByOneWhereTheirPlaceCounts) {
  make("p", true);
  EXPECT_TRUE(are_steady());
  EXPECT_EQ(of(0, kRows), reference());
  expect_warning("rows are taken 1 at a time");
}

TEST_P(SteadyRows, AreFilledUpInEverySliceOfATree) {
  tree_ = {{0, 8, 20, 24, 40, 48, 56, 65}, {0, 1, 0, 2, 0, 1, 2}};
  for (const char* algorithms : {"m", "p"}) {
    make(algorithms, true);
    EXPECT_TRUE(are_steady()) << algorithms;
    EXPECT_EQ(warnings_.size(), 1U);
  }
}

// The check above can fail: without --deterministic nothing is filled up.
TEST_P(SteadyRows, AreGivenUpWithAWarningOtherwise) {
  for (const char* algorithms : {"m", "p", "om"}) {
    make(algorithms, false);
    EXPECT_FALSE(are_steady()) << algorithms;
    expect_warning("answers depend on the batch; --deterministic prevents that");
  }
}

TEST_P(SteadyRows, AreRefusedWhereNoAlgorithmMultiplies) {
  EXPECT_THROW(make("o", false), std::runtime_error);
}

TEST_P(SteadyRows, AskEachShapeOnce) {
  make("s", true);
  const int before = fake_cuda::num_calls("cublasLtMatmul");
  const auto again = ops_->make_matrix({kColumns, kInner, tree_});
  EXPECT_EQ(fake_cuda::num_calls("cublasLtMatmul"), before);
  const auto other = ops_->make_matrix({kColumns + 4, kInner, tree_});
  EXPECT_GT(fake_cuda::num_calls("cublasLtMatmul"), before);
}

}  // namespace
}  // namespace headrace
