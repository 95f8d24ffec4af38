#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/activated_cases.h"
#include "tests/kernels/best_logits_cases.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

class Matmul : public OpsTest {};
class QuantizedMatmul : public OpsTest {};
INSTANTIATE_TEST_SUITE_P(Backends, Matmul, ::testing::ValuesIn(all_backends()), backend_name);
INSTANTIATE_TEST_SUITE_P(Int8, Matmul, ::testing::ValuesIn(int8_backends()), backend_name);
INSTANTIATE_TEST_SUITE_P(Int4, Matmul, ::testing::ValuesIn(int4_backends()), backend_name);
INSTANTIATE_TEST_SUITE_P(WeightOnly, Matmul, ::testing::ValuesIn(weight_only_backends()),
                         backend_name);
INSTANTIATE_TEST_SUITE_P(Int8, QuantizedMatmul, ::testing::ValuesIn(int8_backends()), backend_name);
INSTANTIATE_TEST_SUITE_P(Int4, QuantizedMatmul, ::testing::ValuesIn(int4_backends()), backend_name);

// n slices as equal as multiples of 4 allow, added as first half (rounded up) plus rest.
ReductionTree bisect_tree(std::int32_t k, int slices) {
  ReductionTree tree;
  for (int i = 0; i < slices; ++i) tree.bounds.push_back(k / 4 * i / slices * 4);
  tree.bounds.push_back(k);
  tree.merges.assign(static_cast<std::size_t>(slices), 0);
  const auto count = [&tree](auto&& self, int begin, int end) -> void {
    if (end - begin < 2) return;
    const int middle = begin + (end - begin + 1) / 2;
    self(self, begin, middle);
    self(self, middle, end);
    tree.merges[static_cast<std::size_t>(end - 1)] += 1;
  };
  count(count, 0, slices);
  return tree;
}

struct Product {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  int slices = 1;
  bool bias = false;
  bool add = false;
  Quantization weights = Quantization::kNone;
  QuantizedInputs inputs = QuantizedInputs::kInt8;
};

Tensor multiply(Ops& ops, const Product& p, const Tensor& x, const Tensor& w, Tensor bias) {
  auto matrix = ops.make_matrix(
      {p.n, p.k, bisect_tree(static_cast<std::int32_t>(p.k), p.slices), p.weights, p.inputs});
  matrix->set_rows(0, w.view());
  Tensor out = random_tensor(p.m, p.n, DType::kFloat32, 9);
  const float* bias_values = p.bias ? bias.f32() : nullptr;
  if (p.add) {
    ops.matmul_add(out.view(), x.view(), *matrix, bias_values);
  } else {
    ops.matmul(out.view(), x.view(), *matrix, bias_values);
  }
  return out;
}

TEST_P(Matmul, HasTheBitsOfTheReferenceForEverySize) {
  const std::vector<Product> products = {
      {0, 16, 8},          {1, 1, 1},
      {1, 16, 2, 1, true}, {2, 17, 3},
      {3, 31, 7, 1, true}, {4, 33, 64, 2},
      {5, 100, 37, 3},     {6, 48, 100, 5, true, true},
      {7, 130, 63, 9},     {8, 65, 40, 8, true},
      {13, 34, 66, 1},     {14, 64, 48, 4},
      {15, 63, 50, 7},     {16, 16, 24, 1, false, true},
      {29, 47, 33, 3},     {43, 70, 29, 1},
      {250, 20, 12, 2},    {9, 40, 300, 2},
  };
  for (Product p : products) {
    p.weights = weights();
    p.inputs = inputs();
    SCOPED_TRACE(::testing::Message() << p.m << " x " << p.n << " x " << p.k << ", " << p.slices);
    const Tensor x = random_tensor(p.m, p.k, dtype(), 1);
    const Tensor w = random_tensor(p.n, p.k, dtype(), 2);
    const Tensor bias = random_tensor(1, p.n, DType::kFloat32, 3);
    const Tensor expected =
        multiply(*reference_, p, x, w, random_tensor(1, p.n, DType::kFloat32, 3));
    const Tensor actual = multiply(*fast_, p, x, w, random_tensor(1, p.n, DType::kFloat32, 3));
    EXPECT_TRUE(same_bits(actual, expected));
  }
}

// Columns [begin, end) of a matrix, as a rank that owns them has it.
Tensor columns(const Tensor& whole, std::int64_t begin, std::int64_t end) {
  const ConstTensorView view = whole.view();
  Tensor part(view.rows, end - begin, view.dtype);
  for (std::int64_t r = 0; r < view.rows; ++r) {
    for (std::int64_t c = begin; c < end; ++c) {
      part.set(r * (end - begin) + c - begin, whole.at(r * view.cols + c));
    }
  }
  return part;
}

// Five slices, ((0 + 1) + 2) + (3 + 4), over two ranks: the first owns 0 and 1 and gives one value,
// the second owns the others and gives two.
TEST_P(Matmul, PartsOfTwoRanksAddUpToTheBitsOfTheWhole) {
  const ReductionTree whole{{0, 8, 20, 32, 40, 57}, {0, 1, 1, 0, 2}};
  const std::int64_t cut = 20;
  const ReductionTree trees[2] = {{{0, 8, 20}, {0, 1}}, {{0, 12, 20, 37}, {0, 0, 1}}};
  const std::vector<std::int32_t> merges = {0, 1, 1};
  const std::int64_t n = 53;
  const Tensor w = random_tensor(n, whole.k(), dtype(), 51);
  Tensor bias = random_tensor(1, n, DType::kFloat32, 52);
  for (const std::int64_t m : {1, 5, 33, 250}) {
    const Tensor x = random_tensor(m, whole.k(), dtype(), 53);
    Tensor expected = random_tensor(m, n, DType::kFloat32, 54);
    auto matrix = reference_->make_matrix({n, whole.k(), whole, weights(), inputs()});
    matrix->set_rows(0, w.view());
    reference_->matmul_add(expected.view(), x.view(), *matrix, bias.f32());

    for (Ops* ops : {reference_.get(), fast_.get()}) {
      Tensor first(m, n);
      Tensor second(2 * m, n);
      auto part = ops->make_matrix({n, cut, trees[0], weights(), inputs()});
      part->set_rows(0, columns(w, 0, cut).view());
      ops->matmul_partial(first.view(), columns(x, 0, cut).view(), *part);
      part = ops->make_matrix({n, whole.k() - cut, trees[1], weights(), inputs()});
      part->set_rows(0, columns(w, cut, whole.k()).view());
      EXPECT_EQ(part->num_values(), 2);
      const Tensor right = columns(x, cut, whole.k());
      ops->matmul_partial(second.view(), right.view(), *part);
      EXPECT_THROW(ops->matmul(first.view(), right.view(), *part, nullptr), std::invalid_argument);

      const std::vector<const float*> parts = {first.f32(), second.f32(), second.f32() + m * n};
      Tensor sum = random_tensor(m, n, DType::kFloat32, 54);
      ops->add_partials(sum.view(), parts, merges, bias.f32());
      EXPECT_TRUE(same_bits(sum, expected)) << m;
      EXPECT_THROW(
          ops->add_partials(sum.view(), parts, std::vector<std::int32_t>{0, 1, 0}, nullptr),
          std::invalid_argument);
    }
  }
}

TEST_P(Matmul, EveryRowCountGivesARowTheSameBits) {
  const int most = slow() ? 17 : 61;
  const std::int64_t n = 83;
  const std::int64_t k = 154;
  auto matrix =
      fast_->make_matrix({n, k, bisect_tree(static_cast<std::int32_t>(k), 3), weights(), inputs()});
  matrix->set_rows(0, random_tensor(n, k, dtype(), 5).view());
  const Tensor x = random_tensor(most, k, dtype(), 6);
  Tensor all(most, n);
  fast_->matmul(all.view(), x.view(), *matrix, nullptr);
  const std::size_t row_bytes = static_cast<std::size_t>(k) * dtype_bytes(dtype());
  for (int rows = 1; rows < most; ++rows) {
    const int first = most - rows;
    Tensor part(rows, n);
    const ConstTensorView some{x.view().data + static_cast<std::size_t>(first) * row_bytes, rows, k,
                               dtype()};
    fast_->matmul(part.view(), some, *matrix, nullptr);
    ASSERT_EQ(std::memcmp(part.f32(), all.f32() + first * n, part.view().bytes()), 0) << rows;
  }
}

TEST_P(Matmul, DenormalsAndHugeNumbersFollowTheReference) {
  const std::int64_t n = 40;
  const std::int64_t k = 36;
  Tensor x = random_tensor(6, k, dtype(), 11);
  Tensor w = random_tensor(n, k, dtype(), 12);
  std::mt19937 generator(13);
  std::uniform_int_distribution<int> exponent(-74, -50);
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, std::ldexp(x.at(i), exponent(generator)));
  for (std::int64_t i = 0; i < w.size(); ++i) w.set(i, std::ldexp(w.at(i), exponent(generator)));
  for (std::int64_t i = 0; i < k; ++i) x.set(i, 1e-40F);     // denormal inputs
  for (std::int64_t i = k; i < 2 * k; ++i) x.set(i, 1e37F);  // products near the top
  for (std::int64_t i = 0; i < k; ++i) w.set(i, 30.0F);      // sums that become infinite
  Product p{6, n, k, 2};
  p.weights = weights();
  const Tensor expected = multiply(*reference_, p, x, w, Tensor(1, n));
  EXPECT_TRUE(same_bits(multiply(*fast_, p, x, w, Tensor(1, n)), expected));
}

TEST_P(Matmul, RowsMayBeStoredInPiecesAndFromOtherTypes) {
  const std::int64_t n = 37;
  const std::int64_t k = 21;
  const Tensor w = random_tensor(n, k, DType::kFloat32, 21);
  const Tensor x = random_tensor(3, k, dtype(), 22);
  std::vector<std::uint16_t> halves(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < halves.size(); ++i)
    halves[i] = static_cast<std::uint16_t>(0x2E66 + 7 * i);
  Tensor outs[2] = {Tensor(3, n), Tensor(3, n)};
  Ops* backends[2] = {reference_.get(), fast_.get()};
  for (int b = 0; b < 2; ++b) {
    auto matrix = backends[b]->make_matrix(
        {n, k, ReductionTree::single(static_cast<std::int32_t>(k)), weights(), inputs()});
    const std::byte* data = w.view().data;
    matrix->set_rows(20, {data + 20 * k * 4, n - 20, k, DType::kFloat32});
    matrix->set_rows(0, {data, 19, k, DType::kFloat32});
    matrix->set_rows(19,
                     {reinterpret_cast<const std::byte*>(halves.data()), 1, k, DType::kFloat16});
    backends[b]->matmul(outs[b].view(), x.view(), *matrix, nullptr);
  }
  EXPECT_TRUE(same_bits(outs[1], outs[0]));
  float by_hand = 0.0F;
  for (std::int64_t i = 0; i < k; ++i) {
    by_hand += x.at(i) * f16_to_float(halves[static_cast<std::size_t>(i)]);
  }
  EXPECT_NEAR(outs[1].at(19), by_hand,
              weights() == Quantization::kNone   ? 0.02F
              : weights() == Quantization::kInt8 ? 0.08F
                                                 : 0.5F);
}

TEST_P(Matmul, TheBestLogitsAreThoseOfTheWholeProduct) {
  const std::vector<HeadCase> cases = {{0, 16},
                                       {1, 1},
                                       {1, 8000, {.scale = 0.25F}},
                                       {3, 17, {.soft_cap = 2.0F}},
                                       {5, 1025},
                                       {64, 4},
                                       {100, 2100},
                                       {257, 300, {.scale = 0.5F, .soft_cap = 3.0F}}};
  expect_best_logits(*fast_, {weights(), inputs()}, cases);
  expect_best_logits(*reference_, {weights(), inputs()}, std::span(cases).first(5));
}

TEST_P(Matmul, ARowWithALogitThatIsNotFiniteHasNoBest) {
  expect_no_best_logit_where_one_is_not_finite(*fast_);
  expect_no_best_logit_where_one_is_not_finite(*reference_);
}

// Gates whose columns end with a panel and others, more rows than are packed at a time, more
// columns than a thread keeps.
TEST_P(Matmul, AnActivatedProductIsWhatTheActivationMakesOfIt) {
  const std::vector<ActivatedCase> cases = {{0, 16},
                                            {1, 16, true, true},
                                            {1, 2064},
                                            {3, 17, true, true, Activation::kGeluTanh},
                                            {5, 23, false, true, Activation::kGeluErf},
                                            {64, 160},
                                            {257, 304, true, true},
                                            {257, 520, false, false, Activation::kGeluTanh}};
  expect_activated_products(*fast_, {weights(), inputs()}, cases);
  expect_activated_products(*reference_, {weights(), inputs()}, std::span(cases).first(5));
}

// Of more rows than are packed at a time, in uneven blocks, with and without the MLP's activation.
TEST_P(Matmul, AnInputThatTheProductNormsHasTheBitsOfNormedRows) {
  if (!fast_->norms_inputs()) GTEST_SKIP() << "takes normed rows alone";
  constexpr std::int64_t kInputs = 100;
  constexpr std::int64_t kColumns = 64;
  auto matrix =
      fast_->make_matrix({kColumns, kInputs, bisect_tree(kInputs, 3), weights(), inputs()});
  matrix->set_rows(0, random_tensor(kColumns, kInputs, fast_->compute_dtype(), 81).view());
  Tensor weight = random_tensor(1, kInputs, DType::kFloat32, 82);
  Tensor bias = random_tensor(1, kInputs, DType::kFloat32, 83);
  for (const std::int64_t rows : {1, 7, 30, 257, 600}) {
    fast_->reserve(static_cast<int>(rows), 16, {.num_heads = 1, .num_kv_heads = 1, .head_dim = 2});
    const Tensor x = random_tensor(rows, kInputs, DType::kFloat32, 84);
    for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, norm " << static_cast<int>(kind));
      const Norm norm{.kind = kind,
                      .eps = 1e-5F,
                      .weight = weight.f32(),
                      .bias = kind == NormKind::kLayer ? bias.f32() : nullptr};
      Tensor normed(rows, kInputs, fast_->compute_dtype());
      fast_->norm(normed.view(), x.view(), norm);
      Tensor expected(rows, kColumns);
      fast_->matmul(expected.view(), normed.view(), *matrix, nullptr);
      Tensor actual(rows, kColumns);
      fast_->matmul(actual.view(), {x.view(), norm}, *matrix, nullptr);
      EXPECT_TRUE(same_bits(actual, expected));

      Tensor room(rows, kColumns);
      const ActivatedProduct activated{.w = *matrix, .room = room.view()};
      Tensor expected_half(rows, kColumns / 2, fast_->compute_dtype());
      fast_->matmul_activate(expected_half.view(), normed.view(), activated);
      Tensor half(rows, kColumns / 2, fast_->compute_dtype());
      fast_->matmul_activate(half.view(), {x.view(), norm}, activated);
      EXPECT_TRUE(same_bits(half, expected_half));
    }
  }
}

// In the tiles of few rows and of many, of more rows than are packed at a time, by slices that end
// with what is packed by itself and others.
TEST_P(Matmul, WhatTheActivationPacksForAProductHasTheBitsOfPlainRows) {
  constexpr std::int64_t kInputs = 36;
  constexpr std::int64_t kOut = 40;
  struct Case {
    std::int64_t cols;
    int slices;
    bool packs;
  };
  for (const Case& some : {Case{64, 1, true}, Case{192, 3, true}, Case{320, 5, true},
                           Case{96, 1, false}, Case{80, 2, false}}) {
    auto gates = fast_->make_matrix(
        {2 * some.cols, kInputs, ReductionTree::single(kInputs), weights(), inputs()});
    gates->set_rows(0, random_tensor(2 * some.cols, kInputs, fast_->compute_dtype(), 91).view());
    const ReductionTree tree = bisect_tree(static_cast<std::int32_t>(some.cols), some.slices);
    auto down = fast_->make_matrix({kOut, some.cols, tree, weights(), inputs()});
    down->set_rows(0, random_tensor(kOut, some.cols, fast_->compute_dtype(), 92).view());
    const auto other = fast_->make_matrix({kOut, some.cols, tree, weights(), inputs()});
    for (const std::int64_t rows : {1, 5, 6, 64, 257, 600}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows of " << some.cols);
      fast_->reserve(static_cast<int>(rows), 16,
                     {.num_heads = 1, .num_kv_heads = 1, .head_dim = 2});
      const Tensor x = random_tensor(rows, kInputs, fast_->compute_dtype(), 93);
      Tensor room(rows, 2 * some.cols);
      ActivatedProduct product{.w = *gates, .room = room.view()};
      Tensor plain(rows, some.cols, fast_->compute_dtype());
      EXPECT_EQ(fast_->matmul_activate(plain.view(), x.view(), product).packed_for, nullptr);
      Tensor expected = random_tensor(rows, kOut, DType::kFloat32, 94);
      fast_->matmul_add(expected.view(), plain.view(), *down, nullptr);

      product.reader = down.get();
      Tensor packed(rows, some.cols, fast_->compute_dtype());
      const ProductInput input = fast_->matmul_activate(packed.view(), x.view(), product);
      // Bfloat16 does not fit its memory where kernels read it expanded.
      const bool packed_for_down = input.packed_for == down.get();
      EXPECT_TRUE(packed_for_down || input.packed_for == nullptr);
      EXPECT_TRUE(packed_for_down == some.packs || (some.packs && dtype() == DType::kBFloat16));
      Tensor actual = random_tensor(rows, kOut, DType::kFloat32, 94);
      fast_->matmul_add(actual.view(), input, *down, nullptr);
      EXPECT_TRUE(same_bits(actual, expected));
      if (!packed_for_down) continue;
      EXPECT_THROW(fast_->matmul_add(actual.view(), input, *other, nullptr), std::invalid_argument);
    }
  }
}

TEST(MatmulReference, RefusesAnInputThatIsStillToBeNormed) {
  const auto ops = make_reference_ops(DType::kFloat32);
  const auto matrix = ops->make_matrix({16, 8, bisect_tree(8, 1)});
  const Tensor x = random_tensor(2, 8, DType::kFloat32, 85);
  Tensor out(2, 16);
  EXPECT_THROW(ops->matmul(out.view(), {x.view(), Norm{}}, *matrix, nullptr),
               std::invalid_argument);
}

TEST_P(Matmul, EmbedReturnsTheRowsThatWereStored) {
  const std::int64_t n = 50;
  const std::int64_t k = 35;
  const Tensor w = random_tensor(n, k, dtype(), 31);
  auto table = fast_->make_matrix(
      {n, k, ReductionTree::single(static_cast<std::int32_t>(k)), weights(), inputs()});
  table->set_rows(0, w.view());
  const std::vector<std::int32_t> ids = {49, 0, 7, 7, 16};
  Tensor out(std::ssize(ids), k);
  fast_->embed(out.view(), *table, ids);
  for (std::size_t r = 0; r < ids.size(); ++r) {
    float largest = 0.0F;
    for (std::int64_t i = 0; i < k; ++i) {
      largest = std::max(largest, std::abs(w.at(ids[r] * k + i)));
    }
    // Half a step of int8, and a rounding; of int4 the largest may be cut off.
    const float step = weights() == Quantization::kInt8   ? largest / 253.9F
                       : weights() == Quantization::kInt4 ? largest * 0.36F
                                                          : 0.0F;
    for (std::int64_t i = 0; i < k; ++i) {
      ASSERT_NEAR(out.at(static_cast<std::int64_t>(r) * k + i), w.at(ids[r] * k + i), step);
    }
  }
  auto plain = reference_->make_matrix(
      {n, k, ReductionTree::single(static_cast<std::int32_t>(k)), weights(), inputs()});
  plain->set_rows(0, w.view());
  Tensor expected(std::ssize(ids), k);
  reference_->embed(expected.view(), *plain, ids);
  EXPECT_TRUE(same_bits(out, expected));
  const std::vector<std::int32_t> outside = {50};
  Tensor one(1, k);
  EXPECT_THROW(fast_->embed(one.view(), *table, outside), std::invalid_argument);
}

// Rows 0 to 4 hold nothing but zeros, values too small for a scale, an infinity, something that is
// no number, and an outlier; slices without them are as good as ever.
TEST_P(QuantizedMatmul, RowsWithoutAScaleFollowTheReference) {
  const std::int64_t k = 70;
  Tensor x = random_tensor(6, k, dtype(), 61);
  for (std::int64_t i = 0; i < k; ++i) x.set(i, 0.0F);
  for (std::int64_t i = k; i < 2 * k; ++i) x.set(i, 1e-33F);
  x.set(2 * k + 1, -std::numeric_limits<float>::infinity());
  x.set(3 * k + 69, std::numeric_limits<float>::quiet_NaN());
  x.set(4 * k + 3, 3e38F);
  const Tensor w = random_tensor(35, k, dtype(), 62);
  Product p{6, 35, k, 3};
  p.weights = weights();
  const Tensor actual = multiply(*fast_, p, x, w, Tensor(1, 35));
  EXPECT_TRUE(same_bits(actual, multiply(*reference_, p, x, w, Tensor(1, 35))));
  EXPECT_EQ(actual.at(0), 0.0F);
  EXPECT_EQ(actual.at(35), 0.0F);
  EXPECT_TRUE(std::isnan(actual.at(2 * 35)));
  EXPECT_TRUE(std::isnan(actual.at(3 * 35)));
  EXPECT_TRUE(std::isfinite(actual.at(5 * 35)));
}

TEST(MatmulReference, Int8IsAsCloseAsItsScalesAllow) {
  const auto ops = make_reference_ops(DType::kFloat32);
  const Tensor x = random_tensor(4, 512, DType::kFloat32, 71);
  const Tensor w = random_tensor(64, 512, DType::kFloat32, 72);
  Product p{4, 64, 512, 8};
  const Tensor exact = multiply(*ops, p, x, w, Tensor(1, 64));
  p.weights = Quantization::kInt8;
  const Tensor quantised = multiply(*ops, p, x, w, Tensor(1, 64));
  double error = 0.0;
  double size = 0.0;
  for (std::int64_t i = 0; i < exact.size(); ++i) {
    error += std::pow(exact.at(i) - quantised.at(i), 2.0);
    size += std::pow(exact.at(i), 2.0);
  }
  // Rounding to steps of 2.4 / 127 sigma (64 values a group or slice) on both sides: about 0.75 %.
  EXPECT_LT(std::sqrt(error / size), 0.012);
  EXPECT_GT(std::sqrt(error / size), 0.002);
}

TEST(MatmulReference, IsCloseToDoublePrecision) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto ops = make_reference_ops(dtype);
    const Product p{4, 30, 600, 8};
    const Tensor x = random_tensor(p.m, p.k, dtype, 41);
    const Tensor w = random_tensor(p.n, p.k, dtype, 42);
    const Tensor out = multiply(*ops, p, x, w, Tensor(1, p.n));
    for (std::int64_t r = 0; r < p.m; ++r) {
      for (std::int64_t c = 0; c < p.n; ++c) {
        double sum = 0.0;
        double magnitude = 0.0;
        for (std::int64_t i = 0; i < p.k; ++i) {
          const double product = double{x.at(r * p.k + i)} * w.at(c * p.k + i);
          sum += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(out.at(r * p.n + c), sum, 1e-6 * magnitude);
      }
    }
  }
}

TEST(MatmulReference, TheOrderOfTheTreeShowsInTheBits) {
  // Otherwise the comparisons above would not notice a backend that ignores the tree.
  const auto ops = make_reference_ops(DType::kFloat32);
  const Tensor x = random_tensor(4, 512, DType::kFloat32, 51);
  const Tensor w = random_tensor(64, 512, DType::kFloat32, 52);
  const Tensor one = multiply(*ops, {4, 64, 512, 1}, x, w, Tensor(1, 64));
  const Tensor eight = multiply(*ops, {4, 64, 512, 8}, x, w, Tensor(1, 64));
  EXPECT_FALSE(same_bits(one, eight));
}

TEST(MatmulReference, RefusesATreeThatDoesNotComeOut) {
  const auto ops = make_reference_ops(DType::kBFloat16);
  EXPECT_THROW(ops->make_matrix({4, 8, {{0, 4, 8}, {0, 2}}}), std::invalid_argument);
  EXPECT_THROW(ops->make_matrix({4, 8, {{0, 3, 8}, {0, 1}}}), std::invalid_argument);
  EXPECT_THROW(ops->make_matrix({4, 8, ReductionTree::single(9)}), std::invalid_argument);
  EXPECT_NO_THROW(ops->make_matrix({4, 9, {{0, 4, 9}, {0, 1}}}));
}

}  // namespace
}  // namespace headrace
