#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/op_fixture.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

class Attention : public OpsTest {};
INSTANTIATE_TEST_SUITE_P(Backends, Attention, ::testing::ValuesIn(all_backends()), backend_name);
INSTANTIATE_TEST_SUITE_P(Int8, Attention, ::testing::ValuesIn(int8_backends()), backend_name);

AttentionShape shape_of(int heads, int kv_heads, int head_dim, int rotary_dim) {
  return {.num_heads = heads,
          .num_kv_heads = kv_heads,
          .head_dim = head_dim,
          .rotary_dim = rotary_dim,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Beside scores, and far from them on either side, down to none at all.
constexpr float kSinks[] = {0.5F, -3.0F, 2.5F, -kInfinity, 300.0F, -200.0F, 0.0F};
constexpr float kNoSinks[] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity,
                              -kInfinity, -kInfinity, -kInfinity};

// Of up to seven heads.
AttentionShape with_sinks(AttentionShape shape, const float* sinks) {
  shape.sinks = sinks;
  return shape;
}

// A cache for one sequence: blocks in shuffled order, every byte NaN until it is written.
class Cache {
 public:
  Cache(const Ops& ops, const AttentionShape& shape, int positions, int block_tokens)
      : blocks_(static_cast<std::size_t>((positions + block_tokens - 1) / block_tokens)) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(7));
    const std::size_t block_bytes = ops.kv_block_bytes(shape, block_tokens);
    memory_ = Buffer(blocks_.size() * block_bytes);
    std::memset(memory_.data(), 0xFF, memory_.bytes());
    layer_ = {memory_.data(), block_bytes, block_tokens};
  }
  const KvLayer& layer() const { return layer_; }
  const std::int32_t* blocks() const { return blocks_.data(); }

 private:
  std::vector<std::int32_t> blocks_;
  Buffer memory_;
  KvLayer layer_;
};

Tensor angles(int positions, int rotary_dim) {
  Tensor table(positions, std::max(rotary_dim, 1));
  for (int p = 0; p < positions; ++p) {
    for (int i = 0; i < rotary_dim / 2; ++i) {
      const double angle = p * std::pow(10000.0, -2.0 * i / rotary_dim);
      table.set(std::int64_t{p} * rotary_dim + i, static_cast<float>(std::cos(angle)));
      table.set(std::int64_t{p} * rotary_dim + rotary_dim / 2 + i,
                static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

struct Sequence {
  AttentionShape shape;
  int positions = 0;
  int block_tokens = 16;
  std::vector<int> chunks;  // rows of each step; they add up to positions
};

// Runs one sequence step by step; out and queries of all positions together.
struct Outcome {
  Tensor queries;
  Tensor out;
};
Outcome attend(Ops& ops, const Sequence& s) {
  const std::int64_t q_cols = std::int64_t{s.shape.num_heads} * s.shape.head_dim;
  const std::int64_t cols = q_cols + 2LL * s.shape.num_kv_heads * s.shape.head_dim;
  const Tensor qkv = random_tensor(s.positions, cols, DType::kFloat32, 17, 1.5F);
  Tensor table = angles(s.positions, s.shape.rotary_dim);
  const Cache cache(ops, s.shape, s.positions, s.block_tokens);
  ops.reserve(s.positions, s.positions, s.shape);
  Outcome result{Tensor(s.positions, q_cols, ops.compute_dtype()),
                 Tensor(s.positions, q_cols, ops.compute_dtype())};
  const std::size_t out_row = static_cast<std::size_t>(q_cols) * dtype_bytes(ops.compute_dtype());
  std::int32_t position = 0;
  for (const int rows : s.chunks) {
    const SequenceRows step{0, rows, position, cache.blocks()};
    const std::size_t offset = static_cast<std::size_t>(position) * out_row;
    const TensorView q{result.queries.view().data + offset, rows, q_cols, ops.compute_dtype()};
    const TensorView out{result.out.view().data + offset, rows, q_cols, ops.compute_dtype()};
    const ConstTensorView in{qkv.view().data + position * cols * 4, rows, cols, DType::kFloat32};
    ops.rope_and_store_kv(q, in, table.f32() + std::int64_t{position} * s.shape.rotary_dim, s.shape,
                          cache.layer(), {&step, 1});
    ops.attention(out, q, s.shape, cache.layer(), {&step, 1});
    position += rows;
  }
  return result;
}

std::vector<int> equal_chunks(int positions, int rows) {
  std::vector<int> chunks(static_cast<std::size_t>(positions / rows), rows);
  if (positions % rows != 0) chunks.push_back(positions % rows);
  return chunks;
}

TEST_P(Attention, HasTheBitsOfTheReferenceForEveryShape) {
  const std::vector<AttentionShape> shapes = {
      shape_of(1, 1, 2, 0),   shape_of(2, 1, 6, 4),    shape_of(3, 3, 16, 16),
      shape_of(9, 3, 64, 64), shape_of(4, 1, 80, 32),  shape_of(7, 1, 40, 40),
      shape_of(16, 1, 32, 8), shape_of(20, 1, 18, 18), shape_of(2, 2, 128, 128)};
  for (const AttentionShape& plain : shapes) {
    const AttentionShape shape = with_kv_type(plain);
    SCOPED_TRACE(::testing::Message()
                 << shape.num_heads << "/" << shape.num_kv_heads << " heads of " << shape.head_dim);
    const int positions = slow() ? 67 : 135;
    const Sequence sequence{shape, positions, 16, {positions}};
    const Outcome expected = attend(*reference_, sequence);
    const Outcome actual = attend(*fast_, sequence);
    EXPECT_TRUE(same_bits(actual.queries, expected.queries));
    EXPECT_TRUE(same_bits(actual.out, expected.out));
  }
}

TEST_P(Attention, ChunksAndBlockSizesDoNotChangeABit) {
  const AttentionShape shape = with_kv_type(shape_of(6, 2, 32, 32));
  const int positions = slow() ? 70 : 150;
  const Outcome expected = attend(*reference_, {shape, positions, 16, {positions}});
  for (const int block_tokens : {16, 32, 64, 256}) {
    for (const int rows : {1, 3, 16, 64, 150}) {
      const Sequence sequence{shape, positions, block_tokens, equal_chunks(positions, rows)};
      const Outcome actual = attend(*fast_, sequence);
      EXPECT_TRUE(same_bits(actual.out, expected.out)) << block_tokens << " tokens, " << rows;
    }
  }
}

AttentionShape windowed(AttentionShape shape, int window, float soft_cap) {
  shape.window = window;
  shape.soft_cap = soft_cap;
  return shape;
}

// Windows shorter and longer than a chunk of 64 keys, and than a tile of rows.
TEST_P(Attention, WindowsAndSoftCapsHaveTheBitsOfTheReference) {
  const AttentionShape plain = with_kv_type(shape_of(6, 2, 32, 32));
  const int positions = slow() ? 75 : 150;
  const std::pair<int, float> cases[] = {{0, 1.5F},  {1, 0.0F},  {2, 1.5F},  {9, 0.0F},
                                         {63, 0.0F}, {64, 1.5F}, {65, 0.0F}, {1000, 0.5F}};
  for (const auto& [window, soft_cap] : cases) {
    SCOPED_TRACE(::testing::Message() << "window " << window << ", cap " << soft_cap);
    const AttentionShape shape = windowed(plain, window, soft_cap);
    const Sequence whole{shape, positions, 16, {positions}};
    const Outcome expected = attend(*reference_, whole);
    EXPECT_TRUE(same_bits(attend(*fast_, whole).out, expected.out));
    const Sequence cut{shape, positions, 32, equal_chunks(positions, window % 2 == 0 ? 1 : 7)};
    EXPECT_TRUE(same_bits(attend(*fast_, cut).out, expected.out)) << "in chunks";
  }
}

TEST_P(Attention, SinksHaveTheBitsOfTheReference) {
  const AttentionShape shapes[] = {shape_of(7, 1, 40, 40), shape_of(6, 2, 18, 8),
                                   windowed(shape_of(3, 3, 16, 0), 9, 0.0F),
                                   windowed(shape_of(4, 1, 80, 32), 65, 1.5F)};
  const int positions = slow() ? 67 : 135;
  for (const AttentionShape& plain : shapes) {
    const AttentionShape shape = with_kv_type(with_sinks(plain, kSinks));
    SCOPED_TRACE(::testing::Message() << shape.num_heads << " heads of " << shape.head_dim);
    const Outcome expected = attend(*reference_, {shape, positions, 16, {positions}});
    for (const int rows : {positions, 1, 7}) {
      const Sequence sequence{shape, positions, rows == 7 ? 32 : 16, equal_chunks(positions, rows)};
      EXPECT_TRUE(same_bits(attend(*fast_, sequence).out, expected.out)) << rows << " at a time";
    }
  }
}

TEST_P(Attention, ASinkOfMinusInfinityChangesNoBit) {
  const AttentionShape shape = with_kv_type(windowed(shape_of(6, 2, 18, 8), 66, 0.0F));
  const int positions = 70;
  for (Ops* ops : {reference_.get(), fast_.get()}) {
    const Outcome without = attend(*ops, {shape, positions, 16, {positions}});
    const Outcome with = attend(*ops, {with_sinks(shape, kNoSinks), positions, 16, {positions}});
    EXPECT_TRUE(same_bits(with.out, without.out));
  }
}

TEST_P(Attention, ASinkFarAboveAllScoresLeavesNothing) {
  const float sink = 1e30F;
  const AttentionShape shape = with_kv_type(with_sinks(shape_of(1, 1, 16, 0), &sink));
  const Outcome outcome = attend(*fast_, {shape, 37, 16, equal_chunks(37, 5)});
  for (std::int64_t i = 0; i < outcome.out.size(); ++i) ASSERT_EQ(outcome.out.at(i), 0.0F);
}

// Keys and values in chunks behind a row's window may be anything: they are not read for it, also
// where a row beside it in the batch sees them.
TEST_P(Attention, ChunksBehindTheWindowDoNotReachARow) {
  const int positions = 140;
  const int window = 10;
  const AttentionShape shape = with_kv_type(windowed(shape_of(2, 1, 16, 0), window, 0.0F));
  Tensor qkv = random_tensor(positions, 64, DType::kFloat32, 29);
  for (int d = 32; d < 64; ++d) qkv.set(63 * 64 + d, std::numeric_limits<float>::quiet_NaN());
  for (Ops* ops : {reference_.get(), fast_.get()}) {
    const Cache cache(*ops, shape, positions, 16);
    ops->reserve(positions, positions, shape);
    Tensor q(positions, 32, dtype());
    Tensor out(positions, 32, dtype());
    const SequenceRows rows{0, positions, 0, cache.blocks()};
    ops->rope_and_store_kv(q.view(), qkv.view(), nullptr, shape, cache.layer(), {&rows, 1});
    ops->attention(out.view(), q.view(), shape, cache.layer(), {&rows, 1});
    for (std::int64_t i = 0; i < out.size(); ++i) {
      const std::int64_t row = i / 32;
      ASSERT_EQ(std::isnan(out.at(i)), row >= 63 && row < 63 + window) << "row " << row;
    }
  }
}

TEST_P(Attention, SequencesInOneStepDoNotTouchEachOther) {
  const AttentionShape shape = with_kv_type(with_sinks(shape_of(4, 2, 16, 16), kSinks));
  const int lengths[] = {5, 1, 40, 23};
  const int total = 69;
  const std::int64_t q_cols = 64;
  const std::int64_t cols = 128;
  const Tensor qkv = random_tensor(total, cols, DType::kFloat32, 23);
  Tensor table = angles(total, 16);
  Tensor outs[2] = {Tensor(total, q_cols, dtype()), Tensor(total, q_cols, dtype())};
  Ops* backends[2] = {reference_.get(), fast_.get()};
  for (int b = 0; b < 2; ++b) {
    const Cache cache(*backends[b], shape, 16 * 16, 16);
    std::vector<SequenceRows> sequences;
    std::int32_t row = 0;
    for (int s = 0; s < 4; ++s) {
      sequences.push_back({row, lengths[s], 0, cache.blocks() + 4 * s});
      row += lengths[s];
    }
    Tensor q(total, q_cols, dtype());
    backends[b]->reserve(total, 64, shape);
    backends[b]->rope_and_store_kv(q.view(), qkv.view(), table.f32(), shape, cache.layer(),
                                   sequences);
    backends[b]->attention(outs[b].view(), q.view(), shape, cache.layer(), sequences);
  }
  EXPECT_TRUE(same_bits(outs[1], outs[0]));
}

TEST_P(Attention, UnwrittenSlotsDoNotReachAnyResult) {
  // Every byte of the cache is NaN before a token is written, and each step reads right up to them.
  const Outcome outcome =
      attend(*fast_, {with_kv_type(shape_of(3, 1, 20, 20)), 37, 32, equal_chunks(37, 1)});
  for (std::int64_t i = 0; i < outcome.out.size(); ++i)
    ASSERT_TRUE(std::isfinite(outcome.out.at(i)));
}

TEST_P(Attention, ALaterTokenOfTheSameChunkDoesNotReachAnEarlierRow) {
  const AttentionShape shape = with_kv_type(shape_of(2, 1, 16, 0));
  const int positions = 9;
  for (const int bad : {4, 5, 8}) {
    Tensor qkv = random_tensor(positions, 64, DType::kFloat32, 29);
    for (int d = 32; d < 64; ++d) qkv.set(bad * 64 + d, std::numeric_limits<float>::quiet_NaN());
    const Cache cache(*fast_, shape, positions, 16);
    fast_->reserve(positions, positions, shape);
    Tensor q(positions, 32, dtype());
    Tensor out(positions, 32, dtype());
    const SequenceRows rows{0, positions, 0, cache.blocks()};
    fast_->rope_and_store_kv(q.view(), qkv.view(), nullptr, shape, cache.layer(), {&rows, 1});
    fast_->attention(out.view(), q.view(), shape, cache.layer(), {&rows, 1});
    for (std::int64_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(std::isnan(out.at(i)), i / 32 >= bad) << "row " << i / 32 << ", NaN from " << bad;
    }
  }
}

TEST_P(Attention, LargeScoresDoNotOverflow) {
  AttentionShape shape = with_kv_type(shape_of(2, 2, 16, 16));
  shape.scale = 60.0F;
  const Sequence sequence{shape, 100, 16, {100}};
  const Outcome expected = attend(*reference_, sequence);
  const Outcome actual = attend(*fast_, sequence);
  EXPECT_TRUE(same_bits(actual.out, expected.out));
  for (std::int64_t i = 0; i < actual.out.size(); ++i) ASSERT_TRUE(std::isfinite(actual.out.at(i)));
}

TEST(AttentionReference, IsCloseToDoublePrecision) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const AttentionShape shape = shape_of(4, 2, 24, 0);
    const int positions = 90;
    const auto ops = make_reference_ops(dtype);
    const Outcome outcome = attend(*ops, {shape, positions, 16, {positions}});
    const Tensor qkv = random_tensor(positions, 192, DType::kFloat32, 17, 1.5F);
    const auto element = [&](int row, int column) {
      const float value = qkv.at(std::int64_t{row} * 192 + column);
      return double{dtype == DType::kBFloat16 ? round_to_bf16(value) : value};
    };
    for (int row = 0; row < positions; ++row) {
      for (int head = 0; head < 4; ++head) {
        std::vector<double> weights;
        for (int t = 0; t <= row; ++t) {
          double dot = 0.0;
          for (int d = 0; d < 24; ++d)
            dot += element(row, head * 24 + d) * element(t, 96 + head / 2 * 24 + d);
          weights.push_back(std::exp(dot * shape.scale));
        }
        const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (int d = 0; d < 24; ++d) {
          double value = 0.0;
          for (int t = 0; t <= row; ++t)
            value += weights[static_cast<std::size_t>(t)] * element(t, 144 + head / 2 * 24 + d);
          const double tolerance = dtype == DType::kBFloat16 ? 0.02 : 2e-6;
          ASSERT_NEAR(outcome.out.at(std::int64_t{row} * 96 + head * 24 + d), value / total,
                      tolerance);
        }
      }
    }
  }
}

TEST(AttentionReference, AnInt8CacheIsAsCloseAsItsScalesAllow) {
  AttentionShape shape = shape_of(4, 2, 24, 0);
  const int positions = 200;
  const auto ops = make_reference_ops(DType::kFloat32);
  const Outcome exact = attend(*ops, {shape, positions, 16, {positions}});
  shape.kv_type = KvType::kInt8;
  const Outcome quantised = attend(*ops, {shape, positions, 16, {positions}});
  double error = 0.0;
  double size = 0.0;
  for (std::int64_t i = 0; i < exact.out.size(); ++i) {
    error += std::pow(exact.out.at(i) - quantised.out.at(i), 2.0);
    size += std::pow(exact.out.at(i), 2.0);
  }
  EXPECT_LT(std::sqrt(error / size), 0.02);
  EXPECT_GT(std::sqrt(error / size), 0.001);
}

TEST(AttentionReference, AWindowAndASoftCapAreThoseOfTheDefinition) {
  const int positions = 90;
  const int window = 20;
  const double cap = 0.8;
  const AttentionShape shape = windowed(shape_of(1, 1, 8, 0), window, 0.8F);
  const auto ops = make_reference_ops(DType::kFloat32);
  const Outcome outcome = attend(*ops, {shape, positions, 16, {positions}});
  const Tensor qkv = random_tensor(positions, 24, DType::kFloat32, 17, 1.5F);
  for (int row = 0; row < positions; ++row) {
    double total = 0.0;
    std::vector<double> sums(8);
    for (int t = std::max(0, row - window + 1); t <= row; ++t) {
      double dot = 0.0;
      for (int d = 0; d < 8; ++d) dot += double{qkv.at(row * 24 + d)} * qkv.at(t * 24 + 8 + d);
      const double weight = std::exp(cap * std::tanh(dot * shape.scale / cap));
      total += weight;
      for (int d = 0; d < 8; ++d) {
        sums[static_cast<std::size_t>(d)] += weight * qkv.at(t * 24 + 16 + d);
      }
    }
    for (int d = 0; d < 8; ++d) {
      ASSERT_NEAR(outcome.out.at(row * 8 + d), sums[static_cast<std::size_t>(d)] / total, 2e-6)
          << "row " << row;
    }
  }
}

TEST(AttentionReference, ASinkIsOneMoreScoreWithoutAValue) {
  const int positions = 70;
  const int window = 66;
  const AttentionShape shape = windowed(with_sinks(shape_of(3, 1, 8, 0), kSinks), window, 0.0F);
  const auto ops = make_reference_ops(DType::kFloat32);
  const Outcome outcome = attend(*ops, {shape, positions, 16, {positions}});
  const Tensor qkv = random_tensor(positions, 40, DType::kFloat32, 17, 1.5F);
  for (int row = 0; row < positions; ++row) {
    for (int head = 0; head < 3; ++head) {
      double total = std::exp(double{kSinks[head]});
      std::vector<double> sums(8);
      for (int t = std::max(0, row - window + 1); t <= row; ++t) {
        double dot = 0.0;
        for (int d = 0; d < 8; ++d) {
          dot += double{qkv.at(row * 40 + head * 8 + d)} * qkv.at(t * 40 + 24 + d);
        }
        const double weight = std::exp(dot * shape.scale);
        total += weight;
        for (int d = 0; d < 8; ++d) {
          sums[static_cast<std::size_t>(d)] += weight * qkv.at(t * 40 + 32 + d);
        }
      }
      for (int d = 0; d < 8; ++d) {
        ASSERT_NEAR(outcome.out.at(row * 24 + head * 8 + d),
                    sums[static_cast<std::size_t>(d)] / total, 2e-6)
            << "row " << row << ", head " << head;
      }
    }
  }
}

TEST(AttentionReference, RotationKeepsPairsAtTheirAngle) {
  // Position 1, one pair: (1, 0) turns to (cos 1, sin 1); dimensions behind rotary_dim stay.
  const auto ops = make_reference_ops(DType::kFloat32);
  const AttentionShape shape = shape_of(1, 1, 4, 2);
  const Cache cache(*ops, shape, 1, 16);
  Tensor qkv(1, 12);
  for (std::int64_t i = 0; i < 12; ++i) qkv.set(i, i == 0 ? 1.0F : i == 1 ? 0.0F : 5.0F);
  const float cos_sin[2] = {std::cos(1.0F), std::sin(1.0F)};
  Tensor q(1, 4);
  const SequenceRows rows{0, 1, 0, cache.blocks()};
  ops->rope_and_store_kv(q.view(), qkv.view(), cos_sin, shape, cache.layer(), {&rows, 1});
  EXPECT_EQ(q.at(0), cos_sin[0]);
  EXPECT_EQ(q.at(1), cos_sin[1]);
  EXPECT_EQ(q.at(2), 5.0F);
  EXPECT_EQ(q.at(3), 5.0F);
}

TEST_P(Attention, ShapesThatDoNotDivideAreRefused) {
  EXPECT_THROW(fast_->reserve(1, 1, shape_of(5, 2, 16, 0)), std::invalid_argument);
  EXPECT_THROW(fast_->reserve(1, 1, shape_of(4, 2, 15, 0)), std::invalid_argument);
  EXPECT_THROW(reference_->reserve(1, 1, shape_of(4, 2, 16, 18)), std::invalid_argument);
  EXPECT_THROW(fast_->reserve(1, 1, windowed(shape_of(4, 2, 16, 16), -1, 0.0F)),
               std::invalid_argument);
  EXPECT_THROW(fast_->reserve(1, 1, windowed(shape_of(4, 2, 16, 16), 0, -1.0F)),
               std::invalid_argument);
}

}  // namespace
}  // namespace headrace
