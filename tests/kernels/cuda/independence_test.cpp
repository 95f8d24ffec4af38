// What a row of a product is does not depend on how many rows are taken with it: to the bit. The
// backend sees to that (gemm_algorithm.h); whether the library's algorithms keep it only a GPU can
// tell, so there the shapes are those of models. What had to be filled up is printed.
#include <cstring>
#include <iostream>
#include <numeric>
#include <span>
#include <string>

#include "kernels/random_values.h"
#include "tests/kernels/cuda/cuda_fixture.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

struct Weights {
  const char* name;
  std::int64_t n;
  std::int64_t k;
};
constexpr Weights kOfModels[] = {{"SmolLM2-135M qkv", 960, 576},
                                 {"SmolLM2-135M attention output", 576, 576},
                                 {"SmolLM2-135M mlp up", 3072, 576},
                                 {"SmolLM2-135M mlp down", 576, 1536},
                                 {"SmolLM2-135M head", 49152, 576},
                                 {"Llama-3.1-8B qkv", 6144, 4096},
                                 {"Llama-3.1-8B attention output", 4096, 4096},
                                 {"Llama-3.1-8B mlp up", 28672, 4096},
                                 {"Llama-3.1-8B mlp down", 4096, 14336},
                                 {"Llama-3.1-8B head", 128256, 4096}};
constexpr Weights kSmall[] = {{"small", 40, 24}, {"odd", 33, 65}};

// Outputs of the first rows beside those of all, float32 [rows, n].
class Rows {
 public:
  Rows(Ops& ops, const Weights& weights, std::int64_t most)
      : ops_(ops), n_(weights.n), k_(weights.k) {
    matrix_ =
        ops.make_matrix({n_, k_, ReductionTree::single(static_cast<std::int32_t>(weights.k))});
    matrix_->make_rows(0, {.values = {.half_width = 1.0F, .stream = 17},
                           .stride = static_cast<std::uint64_t>(k_),
                           .rows = n_});
    const Tensor x = random_tensor(most, k_, ops.compute_dtype(), 3);
    x_ = ops.arena().take(x.view().bytes());
    ops.arena().upload(x_, {x.view().data, x.view().bytes()});
    out_ = ops.arena().take(static_cast<std::size_t>(most * n_) * sizeof(float));
  }

  /// The product of rows [begin, end).
  std::vector<float> of(std::int64_t begin, std::int64_t end) const {
    const std::int64_t rows = end - begin;
    const auto offset = static_cast<std::size_t>(begin * k_) * dtype_bytes(ops_.compute_dtype());
    const TensorView x{x_ + offset, rows, k_, ops_.compute_dtype()};
    ops_.matmul({out_, rows, n_, DType::kFloat32}, x, *matrix_, nullptr);
    std::vector<float> values(static_cast<std::size_t>(rows * n_));
    ops_.arena().download(std::as_writable_bytes(std::span(values)), out_);
    return values;
  }

 private:
  Ops& ops_;
  std::int64_t n_;
  std::int64_t k_;
  std::unique_ptr<Matrix> matrix_;
  std::byte* x_ = nullptr;
  std::byte* out_ = nullptr;
};

class RowsOfProducts : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, RowsOfProducts, all_cuda_dtypes(), dtype_of);

void expect_independence(DType dtype, const Weights& weights, bool deterministic) {
  SCOPED_TRACE(::testing::Message() << weights.name << ", " << weights.k << " x " << weights.n);
  // A head's logits of 512 rows would take most of the time just to be copied.
  const std::int64_t most = weights.n > 32768 ? 160 : 512;
  std::string warning;
  const auto ops = make_cuda_ops({.compute_dtype = dtype,
                                  .deterministic = deterministic,
                                  .warn = [&](const std::string& text) { warning = text; }});
  const Rows rows(*ops, weights, most);
  if (!warning.empty()) {
    std::cout << weights.name << ", " << dtype_name(dtype) << ": " << warning << "\n";
    if (!deterministic) return;
  }
  const std::vector<float> all = rows.of(0, most);
  for (const std::int64_t m : {1, 2, 7, 8, 16, 17, 32, 33, 64, 100, 128, 129, 256, 300}) {
    if (m >= most) break;
    // The first ones, and some from the middle, which lie elsewhere in the library's tiles.
    for (const std::int64_t begin : {std::int64_t{0}, (most - m) / 16 * 8}) {
      const std::vector<float> part = rows.of(begin, begin + m);
      const float* same = all.data() + begin * weights.n;
      EXPECT_EQ(std::memcmp(part.data(), same, part.size() * sizeof(float)), 0)
          << m << " rows from " << begin << " are not what they are among " << most;
    }
  }
}

TEST_P(RowsOfProducts, DoNotDependOnTheNumberOfRows) {
  const std::span<const Weights> all = is_emulated() ? std::span<const Weights>(kSmall) : kOfModels;
  for (const Weights& weights : all) {
    for (const bool deterministic : {false, true}) {
      expect_independence(GetParam(), weights, deterministic);
    }
  }
}

}  // namespace
}  // namespace headrace
