// RoPE, the cache and attention, on the GPU backend in emulation.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/cuda/cuda_fixture.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

class CudaAttention : public CudaOpsTest {};
INSTANTIATE_TEST_SUITE_P(Types, CudaAttention, all_cuda_dtypes(), dtype_of);

AttentionShape shape_of(int heads, int kv_heads, int head_dim, int rotary_dim) {
  return {.num_heads = heads,
          .num_kv_heads = kv_heads,
          .head_dim = head_dim,
          .rotary_dim = rotary_dim,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

AttentionShape windowed(AttentionShape shape, int window, float soft_cap) {
  shape.window = window;
  shape.soft_cap = soft_cap;
  return shape;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Beside the sums over a few keys, or a thousand, and far from them on either side.
constexpr float kSinks[] = {1.0F, 6.0F, -kInfinity, 300.0F, -200.0F, 3.0F};
constexpr float kNoSinks[] = {-kInfinity, -kInfinity, -kInfinity,
                              -kInfinity, -kInfinity, -kInfinity};

// Of up to six heads.
AttentionShape with_sinks(AttentionShape shape, const float* sinks) {
  shape.sinks = sinks;
  return shape;
}

// Queries, keys and values of one sequence in a cache of shuffled blocks; every byte of the cache
// is NaN until it is written. Values are rounded to `dtype` beforehand, so that all types start
// alike.
class Stored {
 public:
  Stored(Ops& ops, const AttentionShape& shape, int positions, int block_tokens, DType dtype)
      : ops_(ops),
        shape_(shape),
        queries_(positions, std::int64_t{shape.num_heads} * shape.head_dim, ops.compute_dtype()),
        blocks_(static_cast<std::size_t>((positions + block_tokens - 1) / block_tokens)) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937(7));
    const std::size_t block_bytes = ops.kv_block_bytes(shape, block_tokens);
    memory_ = Buffer(blocks_.size() * block_bytes);
    std::memset(memory_.data(), 0xFF, memory_.bytes());
    kv_ = {memory_.data(), block_bytes, block_tokens};
    const std::int64_t cols =
        std::int64_t{shape.num_heads + 2 * shape.num_kv_heads} * shape.head_dim;
    const Tensor qkv =
        converted(converted(random_tensor(positions, cols, DType::kFloat32, 17, 1.5F), dtype),
                  DType::kFloat32);
    Tensor cos_sin = random_tensor(positions, std::max(shape.rotary_dim, 1), DType::kFloat32, 5);
    ops.reserve(positions, positions, shape);
    const SequenceRows rows{0, positions, 0, blocks_.data()};
    ops.rope_and_store_kv(queries_.view(), qkv.view(), cos_sin.f32(), shape, kv_, {&rows, 1});
  }

  /// Attention of rows [begin, end) in one step.
  Tensor attend(int begin, int end) {
    const std::int64_t cols = queries_.view().cols;
    Tensor out(end - begin, cols, ops_.compute_dtype());
    const std::size_t row_bytes =
        static_cast<std::size_t>(cols) * dtype_bytes(ops_.compute_dtype());
    const ConstTensorView q{queries_.view().data + static_cast<std::size_t>(begin) * row_bytes,
                            end - begin, cols, ops_.compute_dtype()};
    const SequenceRows rows{0, end - begin, begin, blocks_.data()};
    ops_.attention(out.view(), q, shape_, kv_, {&rows, 1});
    return out;
  }

  const Tensor& queries() const { return queries_; }
  const Buffer& memory() const { return memory_; }

 private:
  Ops& ops_;
  AttentionShape shape_;
  Tensor queries_;
  std::vector<std::int32_t> blocks_;
  Buffer memory_;
  KvLayer kv_;
};

Tolerance tolerance_of(DType dtype) {
  if (dtype == DType::kFloat32) return {};
  return {2 * unit_of(dtype), 2 * unit_of(dtype) * 0.25F};
}

TEST_P(CudaAttention, QueriesAndCacheHaveTheBitsOfTheReference) {
  for (const AttentionShape& shape : {shape_of(3, 1, 16, 16), shape_of(4, 2, 6, 4),
                                      shape_of(2, 2, 128, 64), shape_of(2, 1, 40, 0)}) {
    under_schedules([&] {
      const Stored actual(*cuda_, shape, 37, 16, dtype());
      const Stored expected(*reference_, shape, 37, 16, dtype());
      EXPECT_TRUE(same_bits(actual.queries(), converted(expected.queries(), dtype())));
      if (dtype() == DType::kFloat16) return;  // the reference's cache is wider
      // Both lay their blocks out alike.
      ASSERT_EQ(actual.memory().bytes(), expected.memory().bytes());
      EXPECT_EQ(
          std::memcmp(actual.memory().data(), expected.memory().data(), expected.memory().bytes()),
          0);
    });
  }
}

struct Rows {
  int begin;
  int end;
};

void expect_close(Ops& cuda, Ops& reference, const AttentionShape& shape, const Rows& rows) {
  SCOPED_TRACE(::testing::Message()
               << shape.num_heads << "/" << shape.num_kv_heads << " heads of " << shape.head_dim
               << ", window " << shape.window << ", rows from " << rows.begin);
  Stored expected(reference, shape, rows.end, 16, cuda.compute_dtype());
  Stored actual(cuda, shape, rows.end, 16, cuda.compute_dtype());
  EXPECT_TRUE(close_to(actual.attend(rows.begin, rows.end), expected.attend(rows.begin, rows.end),
                       tolerance_of(cuda.compute_dtype())));
}

// float32 takes the plain kernel, as do heads of 6 and 18 and 264 dimensions: to the bit there.
TEST_P(CudaAttention, IsThatOfTheReferenceForEveryShape) {
  under_schedules([&] {
    expect_close(*cuda_, *reference_, shape_of(2, 1, 6, 0), {0, 67});
    expect_close(*cuda_, *reference_, shape_of(20, 1, 18, 0), {100, 104});
    expect_close(*cuda_, *reference_, shape_of(3, 3, 16, 0), {30, 70});
    expect_close(*cuda_, *reference_, shape_of(4, 2, 64, 0), {100, 135});
    expect_close(*cuda_, *reference_, shape_of(8, 1, 80, 0), {130, 132});
    expect_close(*cuda_, *reference_, shape_of(2, 1, 128, 0), {64, 75});
    expect_close(*cuda_, *reference_, shape_of(2, 2, 256, 0), {66, 67});
    expect_close(*cuda_, *reference_, shape_of(1, 1, 264, 0), {66, 67});
  });
}

TEST_P(CudaAttention, WindowsAndSoftCapsAreThoseOfTheReference) {
  const AttentionShape plain = shape_of(6, 2, 32, 0);
  const std::pair<int, float> cases[] = {{0, 1.5F},  {1, 0.0F},  {9, 1.5F},
                                         {63, 0.0F}, {65, 0.0F}, {1000, 0.5F}};
  for (const auto& [window, soft_cap] : cases) {
    const AttentionShape shape = windowed(plain, window, soft_cap);
    expect_close(*cuda_, *reference_, shape, {120, 150});
    expect_close(*cuda_, *reference_, shape, {149, 150});
  }
}

TEST_P(CudaAttention, SinksAreThoseOfTheReference) {
  under_schedules([&] {
    expect_close(*cuda_, *reference_, with_sinks(shape_of(2, 1, 6, 0), kSinks), {60, 67});
    expect_close(*cuda_, *reference_, with_sinks(shape_of(6, 2, 40, 0), kSinks), {63, 64});
    expect_close(*cuda_, *reference_, with_sinks(windowed(shape_of(4, 2, 16, 0), 20, 1.5F), kSinks),
                 {50, 90});
  });
}

TEST_P(CudaAttention, ASinkOfMinusInfinityChangesNoBit) {
  const AttentionShape shape = windowed(shape_of(6, 2, 16, 0), 550, 0.0F);
  for (const Rows& rows : {Rows{60, 90}, Rows{600, 601}}) {
    Stored without(*cuda_, shape, rows.end, 16, dtype());
    Stored with(*cuda_, with_sinks(shape, kNoSinks), rows.end, 16, dtype());
    EXPECT_TRUE(same_bits(with.attend(rows.begin, rows.end), without.attend(rows.begin, rows.end)));
  }
}

// A decoded row gives each 512 keys to a block and merges in a second kernel; a tile of prompt rows
// walks them one after another; a tile may begin before the split that its last row needs.
TEST_P(CudaAttention, ManySplitsAreThoseOfTheReference) {
  for (const int window : {0, 600}) {
    const AttentionShape shape = windowed(shape_of(2, 1, 16, 0), window, 0.0F);
    expect_close(*cuda_, *reference_, shape, {1090, 1091});
    expect_close(*cuda_, *reference_, shape, {1015, 1040});
  }
}

// However many splits a row has, its sink counts once.
TEST_P(CudaAttention, SinksJoinTheSumOfAllSplits) {
  const AttentionShape shape = with_sinks(shape_of(2, 1, 16, 0), kSinks);
  expect_close(*cuda_, *reference_, shape, {1090, 1091});
  expect_close(*cuda_, *reference_, shape, {1015, 1040});
}

TEST_P(CudaAttention, SplitsOfADecodedRowAreMerged) {
  const AttentionShape shape = shape_of(2, 2, 16, 0);
  under_schedules([&] { expect_close(*cuda_, *reference_, shape, {520, 521}); });
}

TEST_P(CudaAttention, HowAPromptIsCutDoesNotChangeABit) {
  struct Case {
    AttentionShape shape;
    Rows rows;
  };
  const Case cases[] = {{shape_of(6, 2, 16, 0), {40, 70}},
                        {windowed(shape_of(4, 2, 16, 0), 40, 0.0F), {80, 110}},
                        {with_sinks(shape_of(2, 1, 16, 0), kSinks), {1019, 1031}},
                        {windowed(shape_of(2, 1, 16, 0), 530, 2.0F), {1019, 1031}}};
  for (const Case& one : cases) {
    Stored stored(*cuda_, one.shape, one.rows.end, 16, dtype());
    const Tensor whole = stored.attend(one.rows.begin, one.rows.end);
    const std::size_t row_bytes =
        whole.view().bytes() / static_cast<std::size_t>(whole.view().rows);
    for (const int step : {1, 7, 33}) {
      Stored again(*cuda_, one.shape, one.rows.end, step == 7 ? 32 : 256, dtype());
      for (int begin = one.rows.begin; begin < one.rows.end; begin += step) {
        const int end = std::min(begin + step, one.rows.end);
        const Tensor part = again.attend(begin, end);
        ASSERT_EQ(std::memcmp(part.view().data,
                              whole.view().data +
                                  static_cast<std::size_t>(begin - one.rows.begin) * row_bytes,
                              part.view().bytes()),
                  0)
            << "rows from " << begin << " in steps of " << step << ", window " << one.shape.window;
      }
    }
  }
}

TEST_P(CudaAttention, SequencesInOneStepDoNotTouchEachOther) {
  const AttentionShape shape = shape_of(4, 2, 16, 0);
  const int lengths[] = {5, 1, 40, 23};
  const std::int64_t cols = 128;
  const Tensor qkv =
      converted(converted(random_tensor(69, cols, DType::kFloat32, 23), dtype()), DType::kFloat32);
  const auto run = [&](Ops& ops) {
    const std::size_t block_bytes = ops.kv_block_bytes(shape, 16);
    Buffer memory(16 * block_bytes);
    std::memset(memory.data(), 0xFF, memory.bytes());
    const KvLayer kv{memory.data(), block_bytes, 16};
    std::vector<std::int32_t> blocks(16);
    std::iota(blocks.rbegin(), blocks.rend(), 0);
    std::vector<SequenceRows> sequences;
    std::int32_t row = 0;
    for (int s = 0; s < 4; ++s) {
      sequences.push_back({row, lengths[s], 0, blocks.data() + 4 * s});
      row += lengths[s];
    }
    Tensor q(69, 64, ops.compute_dtype());
    Tensor out(69, 64, ops.compute_dtype());
    ops.reserve(69, 64, shape);
    ops.rope_and_store_kv(q.view(), qkv.view(), nullptr, shape, kv, sequences);
    ops.attention(out.view(), q.view(), shape, kv, sequences);
    return out;
  };
  const Tensor expected = run(*reference_);
  under_schedules([&] { EXPECT_TRUE(close_to(run(*cuda_), expected, tolerance_of(dtype()))); });
}

// Every byte of the cache is NaN before it is written, and each step reads right up to them.
TEST_P(CudaAttention, UnwrittenSlotsDoNotReachAnyResult) {
  for (const int rows : {1, 5, 37}) {
    Stored stored(*cuda_, shape_of(3, 1, 24, 24), 37, 32, dtype());
    const Tensor out = stored.attend(37 - rows, 37);
    for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_TRUE(std::isfinite(out.at(i)));
  }
}

TEST_P(CudaAttention, LargeScoresDoNotOverflow) {
  AttentionShape shape = shape_of(2, 2, 16, 0);
  shape.scale = 60.0F;
  Stored stored(*cuda_, shape, 100, 16, dtype());
  const Tensor out = stored.attend(0, 100);
  for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_TRUE(std::isfinite(out.at(i)));
}

TEST_P(CudaAttention, ShapesThatDoNotDivideAreRefused) {
  EXPECT_THROW(cuda_->reserve(1, 1, shape_of(5, 2, 16, 0)), std::invalid_argument);
  EXPECT_THROW(cuda_->reserve(1, 1, windowed(shape_of(4, 2, 16, 16), -1, 0.0F)),
               std::invalid_argument);
  AttentionShape quantised = shape_of(4, 2, 16, 16);
  quantised.kv_type = KvType::kInt8;
  EXPECT_THROW(cuda_->reserve(1, 1, quantised), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
