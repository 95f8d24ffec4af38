// Cases of best_logits() that every backend passes: what it finds is what a look through the whole
// product finds.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/op_fixture.h"

namespace headrace::testing_ops {

struct HeadCase {
  std::int64_t m;
  std::int64_t n;
  LogitChange change = {};
};

struct HeadWeights {
  Quantization quantization = Quantization::kNone;
  QuantizedInputs inputs = QuantizedInputs::kInt8;
};

/// [n, k], of which every row appears twice but for the last one of an odd count: all maxima are
/// shared, and the lower id counts.
inline Tensor twins(std::int64_t n, std::int64_t k, DType dtype) {
  const Tensor half = random_tensor((n + 1) / 2, k, dtype, 62);
  Tensor all(n, k, dtype);
  for (std::int64_t i = 0; i < all.size(); ++i) {
    all.set(i, half.at(i / k % ((n + 1) / 2) * k + i % k));
  }
  return all;
}

/// What the logits, made one by one, say.
inline std::vector<BestLogit> looked_through(Ops& ops, const HeadCase& head, const Tensor& x,
                                             const Matrix& w) {
  Tensor logits(head.m, head.n);
  ops.matmul(logits.view(), x.view(), w, nullptr);
  change_logits(ops, logits.view(), head.change);
  std::vector<BestLogit> best(static_cast<std::size_t>(head.m), {-INFINITY, -1});
  for (std::int64_t i = 0; i < logits.size(); ++i) {
    BestLogit& of_row = best[static_cast<std::size_t>(i / head.n)];
    if (logits.at(i) > of_row.value) {
      of_row = {logits.at(i), static_cast<std::int32_t>(i % head.n)};
    }
  }
  return best;
}

inline void expect_best_logits(Ops& ops, const HeadWeights& weights,
                               std::span<const HeadCase> cases) {
  constexpr std::int64_t kInputs = 20;
  for (const HeadCase& head : cases) {
    SCOPED_TRACE(::testing::Message() << head.m << " rows of " << head.n << " ids");
    auto matrix = ops.make_matrix(
        {head.n, kInputs, {{0, 8, 20}, {0, 1}}, weights.quantization, weights.inputs});
    matrix->set_rows(0, twins(head.n, kInputs, ops.compute_dtype()).view());
    ops.reserve(static_cast<int>(head.m), 16, {.num_heads = 1, .num_kv_heads = 1, .head_dim = 2});
    const Tensor x = random_tensor(head.m, kInputs, ops.compute_dtype(), 61);
    const std::vector<BestLogit> expected = looked_through(ops, head, x, *matrix);
    Tensor room(head.m, head.n);
    std::vector<BestLogit> actual(expected.size());
    ops.best_logits(actual, x.view(), *matrix, head.change, room.view());
    for (std::size_t row = 0; row < expected.size(); ++row) {
      ASSERT_EQ(actual[row].id, expected[row].id) << "row " << row;
      ASSERT_EQ(actual[row].value, expected[row].value) << "row " << row;
    }
  }
}

/// A row with a value that is no number, or with an infinite one, has no best logit; its neighbours
/// have theirs.
inline void expect_no_best_logit_where_one_is_not_finite(Ops& ops) {
  constexpr std::int64_t kIds = 1500;
  const float kOdd[] = {NAN, INFINITY, -INFINITY};
  auto matrix = ops.make_matrix({kIds, 4, ReductionTree::single(4)});
  Tensor weights = random_tensor(kIds, 4, ops.compute_dtype(), 63);
  for (std::int64_t i = 0; i < kIds; ++i) weights.set(4 * i + 3, i == 700 ? 1.0F : 0.5F);
  matrix->set_rows(0, weights.view());
  ops.reserve(5, 16, {.num_heads = 1, .num_kv_heads = 1, .head_dim = 2});
  Tensor x = random_tensor(5, 4, ops.compute_dtype(), 64);
  for (std::int64_t row = 1; row < 4; ++row) {
    x.set(4 * row + 3, kOdd[static_cast<std::size_t>(row - 1)]);
  }
  Tensor room(5, kIds);
  std::vector<BestLogit> best(5);
  ops.best_logits(best, x.view(), *matrix, {}, room.view());
  for (std::size_t row = 0; row < best.size(); ++row) {
    const bool odd = row > 0 && row < 4;
    EXPECT_EQ(std::isnan(best[row].value), odd) << row;
    EXPECT_EQ(best[row].id < 0, odd) << row;
  }
}

}  // namespace headrace::testing_ops
