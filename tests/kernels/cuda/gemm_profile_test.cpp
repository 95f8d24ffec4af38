// Algorithms that are known from an earlier run are taken without trying any out; what the library
// refuses is found anew.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cuda_backend.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/cuda/cuda_fixture.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

constexpr std::int64_t kColumns = 36;
constexpr std::int64_t kInner = 65;

class KnownAlgorithms : public ::testing::Test {
 protected:
  ~KnownAlgorithms() override { fake_cuda::configure({}); }

  // What a run with two shapes of product does with what is known.
  struct Run {
    GemmProfile profile;
    std::vector<std::string> warnings = {};
    std::vector<float> product = {};
    int num_asked = 0;     // heuristics
    int num_products = 0;  // taken before the first of the model's own
  };
  static Run run(const std::string& algorithms, const GemmAnswers& known, bool deterministic) {
    fake_cuda::configure({.algorithms = algorithms});
    Run result{.profile = GemmProfile(known)};
    const auto ops = make_hosted_cuda_ops(
        {.compute_dtype = DType::kFloat32,
         .deterministic = deterministic,
         .workspace_bytes = std::size_t{1} << 20,
         .profile = &result.profile,
         .warn = [&](const std::string& text) { result.warnings.push_back(text); }});
    const auto tree = ReductionTree::single(kInner);
    const auto first = ops->make_matrix({kColumns, kInner, tree});
    const auto same = ops->make_matrix({kColumns, kInner, tree});
    const auto other = ops->make_matrix({2 * kColumns, kInner, tree});
    result.num_asked = fake_cuda::num_calls("cublasLtMatmulAlgoGetHeuristic");
    result.num_products = fake_cuda::num_calls("cublasLtMatmul");
    first->set_rows(0, random_tensor(kColumns, kInner, DType::kFloat32, 2).view());
    const Tensor x = random_tensor(20, kInner, DType::kFloat32, 1);
    Tensor out(20, kColumns);
    ops->matmul(out.view(), x.view(), *first, nullptr);
    result.product = {out.f32(), out.f32() + out.size()};
    return result;
  }
};

TEST_F(KnownAlgorithms, AreTakenWithoutATrial) {
  for (const std::string algorithms : {"s", "mps", "m"}) {
    for (const bool deterministic : {false, true}) {
      SCOPED_TRACE(algorithms + (deterministic ? ", deterministic" : ""));
      const Run first = run(algorithms, {}, deterministic);
      EXPECT_EQ(first.num_asked, 2);
      EXPECT_GT(first.num_products, 10);
      EXPECT_EQ(first.profile.num_taken(), 0);
      ASSERT_EQ(first.profile.found().size(), 2U);

      const Run second = run(algorithms, first.profile.found(), deterministic);
      EXPECT_EQ(second.num_asked, 0);
      EXPECT_EQ(second.num_products, 0);
      EXPECT_EQ(second.profile.num_taken(), 2);
      EXPECT_TRUE(second.profile.found().empty());
      EXPECT_EQ(second.product, first.product);
      EXPECT_EQ(second.warnings, first.warnings);
    }
  }
}

TEST_F(KnownAlgorithms, OfOtherProductsAreNotTaken) {
  const GemmAnswers known = run("s", {}, false).profile.found();
  GemmAnswers others;
  for (const auto& [shape, answer] : known) {
    for (int change = 0; change < 5; ++change) {
      GemmShape other = shape;
      if (change == 0) other.k += 1;
      if (change == 1) other.stride += 8;
      if (change == 2) other.dtype = DType::kFloat16;
      if (change == 3) other.alignment /= 2;
      if (change == 4) other.filled_rows = 256;
      others[other] = answer;
    }
  }
  const Run second = run("s", others, false);
  EXPECT_EQ(second.num_asked, 2);
  EXPECT_EQ(second.profile.num_taken(), 0);
  EXPECT_EQ(second.profile.found(), known);
}

TEST_F(KnownAlgorithms, ThatTheLibraryRefusesAreFoundAnewWithAWarning) {
  GemmAnswers known = run("ps", {}, false).profile.found();
  const Run first = run("s", known, false);
  EXPECT_EQ(first.profile.num_taken(), 2);  // it has that one still

  known.begin()->second.algorithm[0] ^= 1;  // for another product
  const Run second = run("s", known, false);
  EXPECT_EQ(second.num_asked, 1);
  EXPECT_EQ(second.profile.num_taken(), 1);
  ASSERT_EQ(second.profile.found().size(), 1U);
  ASSERT_EQ(second.warnings.size(), 1U);
  EXPECT_NE(
      second.warnings[0].find("refuses the device profile's algorithm for products of 36 x 65"),
      std::string::npos)
      << second.warnings[0];
  EXPECT_EQ(second.product, first.product);

  // One that splits K would depend on more than its row.
  GemmAnswers split = run("s", {}, false).profile.found();
  for (auto& [shape, answer] : split) answer.algorithm[7] = 4;
  EXPECT_EQ(run("s", split, false).num_asked, 2);
}

}  // namespace
}  // namespace headrace
