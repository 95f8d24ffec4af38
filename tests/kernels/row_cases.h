// Cases that every backend passes, to the bit of the reference: operators whose sums have a fixed
// order, or none. float16 is compared with the reference's float32, rounded.
#pragma once

#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "tests/kernels/op_fixture.h"

namespace headrace::testing_ops {

struct RowShape {
  std::int64_t rows;
  std::int64_t cols;
};

inline constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh,
                                              Activation::kGeluErf};

/// activation(x) on both, x float32 [rows, cols or 2 * cols].
inline Tensor expect_same_activation(Ops& ops, Ops& reference, const Tensor& x, std::int64_t cols,
                                     Activation activation) {
  const std::int64_t rows = x.view().rows;
  Tensor expected(rows, cols, reference.compute_dtype());
  Tensor actual(rows, cols, ops.compute_dtype());
  reference.activate(expected.view(), x.view(), activation);
  ops.activate(actual.view(), x.view(), activation);
  EXPECT_TRUE(same_bits(actual, converted(expected, ops.compute_dtype())));
  return actual;
}

inline void expect_activations(Ops& ops, Ops& reference, std::span<const RowShape> shapes) {
  for (const RowShape& shape : shapes) {
    for (const Activation activation : kActivations) {
      for (const int parts : {1, 2}) {
        SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.cols);
        const Tensor x =
            random_tensor(shape.rows, parts * shape.cols, DType::kFloat32, 3, parts * 10.0F);
        expect_same_activation(ops, reference, x, shape.cols, activation);
      }
    }
  }
}

inline void expect_activations_of_extreme_values(Ops& ops, Ops& reference) {
  const std::vector<float> gates = {0.0F,   -0.0F,   88.0F,  -88.0F,  88.5F,  -88.5F,
                                    100.0F, -100.0F, 1e-30F, -1e-30F, 13.5F,  -13.5F,
                                    14.5F,  -14.5F,  1e-40F, 3e38F,   -87.3F, INFINITY};
  const std::int64_t count = std::ssize(gates);
  Tensor gate_up(1, 2 * count);
  for (std::int64_t i = 0; i < count; ++i) {
    gate_up.set(i, gates[static_cast<std::size_t>(i)]);
    gate_up.set(count + i, 1.5F);
  }
  for (const Activation activation : kActivations) {
    const Tensor actual = expect_same_activation(ops, reference, gate_up, count, activation);
    EXPECT_EQ(actual.at(count - 1), INFINITY);
    for (std::int64_t i = 0; i + 1 < count; ++i) {
      ASSERT_FALSE(std::isnan(actual.at(i))) << gates[static_cast<std::size_t>(i)];
    }
  }
}

inline void expect_scaling_and_capping(Ops& ops, Ops& reference, std::span<const RowShape> shapes) {
  for (const RowShape& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.cols);
    const Tensor x = random_tensor(shape.rows, shape.cols, DType::kFloat32, 6, 20.0F);
    Tensor expected = random_tensor(shape.rows, shape.cols, DType::kFloat32, 7, 20.0F);
    Tensor actual = random_tensor(shape.rows, shape.cols, DType::kFloat32, 7, 20.0F);
    for (Ops* each : {&reference, &ops}) {
      Tensor& sums = each == &ops ? actual : expected;
      each->scale(sums.view(), 0.3F);
      each->add_scaled(sums.view(), x.view(), 0.22F);
      each->soft_cap(sums.view(), 5.0F);
    }
    EXPECT_TRUE(same_bits(actual, expected));
    for (std::int64_t i = 0; i < actual.size(); ++i) ASSERT_LE(std::abs(actual.at(i)), 5.0F);
  }
}

/// Three rows have to be reserved where the backend asks for that.
inline void expect_statistics(Ops& ops, Ops& reference) {
  for (const RowShape shape : {RowShape{0, 10}, RowShape{1, 1}, RowShape{2, 1023},
                               RowShape{2, 1024}, RowShape{3, 1025}, RowShape{2, 5003}}) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.cols);
    const Tensor logits = random_tensor(shape.rows, shape.cols, DType::kFloat32, 4, 8.0F);
    std::vector<RowStatistics> expected(static_cast<std::size_t>(shape.rows));
    std::vector<RowStatistics> actual(expected.size());
    reference.row_statistics(expected, logits.view());
    ops.row_statistics(actual, logits.view());
    for (std::size_t r = 0; r < expected.size(); ++r) {
      EXPECT_EQ(actual[r].max, expected[r].max);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(actual[r].log_sum_exp),
                std::bit_cast<std::uint32_t>(expected[r].log_sum_exp));
    }
  }
}

/// Ids with a logit of minus infinity add nothing, and keep nothing from the others.
inline void expect_statistics_without_banned_ids(Ops& ops) {
  Tensor logits(1, 40);
  for (std::int64_t i = 0; i < 40; ++i) logits.set(i, -INFINITY);
  logits.set(17, -2.5F);
  std::vector<RowStatistics> out(1);
  ops.row_statistics(out, logits.view());
  EXPECT_EQ(out[0].max, -2.5F);
  EXPECT_EQ(out[0].log_sum_exp, -2.5F);
}

}  // namespace headrace::testing_ops
