// Cases of matmul_activate() that every backend passes: what it gives is what activate() makes of
// the whole product.
#pragma once

#include <span>

#include "tests/kernels/best_logits_cases.h"
#include "tests/kernels/op_fixture.h"

namespace headrace::testing_ops {

struct ActivatedCase {
  std::int64_t m;
  std::int64_t cols;  // of what comes out
  bool gated = true;
  bool bias = false;
  Activation activation = Activation::kSilu;
};

inline void expect_activated_products(Ops& ops, const HeadWeights& weights,
                                      std::span<const ActivatedCase> cases) {
  constexpr std::int64_t kInputs = 36;
  for (const ActivatedCase& some : cases) {
    SCOPED_TRACE(::testing::Message() << some.m << " rows of " << some.cols);
    const std::int64_t n = some.gated ? 2 * some.cols : some.cols;
    auto matrix =
        ops.make_matrix({n, kInputs, {{0, 16, 36}, {0, 1}}, weights.quantization, weights.inputs});
    matrix->set_rows(0, random_tensor(n, kInputs, ops.compute_dtype(), 71).view());
    ops.reserve(static_cast<int>(some.m), 16, {.num_heads = 1, .num_kv_heads = 1, .head_dim = 2});
    const Tensor x = random_tensor(some.m, kInputs, ops.compute_dtype(), 72);
    Tensor bias = random_tensor(1, n, DType::kFloat32, 73);
    const float* bias_values = some.bias ? bias.f32() : nullptr;
    Tensor product(some.m, n);
    Tensor expected(some.m, some.cols, ops.compute_dtype());
    ops.matmul(product.view(), x.view(), *matrix, bias_values);
    ops.activate(expected.view(), product.view(), some.activation);
    Tensor room(some.m, n);
    Tensor actual(some.m, some.cols, ops.compute_dtype());
    ops.matmul_activate(
        actual.view(), x.view(),
        {.w = *matrix, .bias = bias_values, .activation = some.activation, .room = room.view()});
    EXPECT_TRUE(same_bits(actual, expected));
  }
}

}  // namespace headrace::testing_ops
