// Promises about backends as a whole: memory, choice, the instruction that bfloat16 sums follow.
#include <cstdlib>
#include <new>

#include "kernels/buffer.h"
#include "kernels/flush_denormals.h"
#include "tests/kernels/op_fixture.h"

namespace {
thread_local bool counting = false;
thread_local int allocations = 0;
}  // namespace

// Counts what this thread allocates. Not inlined, or the compiler would see malloc and free through
// new and delete and take them for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (counting) ++allocations;
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t /*bytes*/) noexcept {
  std::free(p);
}

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

class BackendOps : public OpsTest {};
INSTANTIATE_TEST_SUITE_P(Backends, BackendOps, ::testing::ValuesIn(all_backends()), backend_name);

TEST_P(BackendOps, NothingIsAllocatedInsideAStep) {
  const AttentionShape shape{
      .num_heads = 6, .num_kv_heads = 2, .head_dim = 16, .rotary_dim = 16, .scale = 0.25F};
  const int rows = 40;
  auto qkv_matrix = fast_->make_matrix({160, 96, ReductionTree::single(96)});
  auto out_matrix = fast_->make_matrix({96, 96, {{0, 48, 96}, {0, 1}}});
  qkv_matrix->set_rows(0, random_tensor(160, 96, dtype(), 1).view());
  out_matrix->set_rows(0, random_tensor(96, 96, dtype(), 2).view());
  fast_->reserve(rows, 64, shape);
  const std::size_t block_bytes = fast_->kv_block_bytes(shape, 16);
  const Buffer cache(4 * block_bytes);
  const KvLayer kv{cache.data(), block_bytes, 16};
  const std::vector<std::int32_t> blocks = {2, 0, 3, 1};
  const std::vector<SequenceRows> sequences = {{0, 30, 0, blocks.data()},
                                               {30, 10, 0, blocks.data() + 2}};
  const std::vector<std::int32_t> ids(rows, 3);
  Tensor hidden(rows, 96);
  Tensor normed(rows, 96, dtype());
  Tensor weight = random_tensor(1, 96, DType::kFloat32, 3);
  Tensor cos_sin = random_tensor(rows, 16, DType::kFloat32, 4);
  Tensor qkv(rows, 160);
  Tensor q(rows, 96, dtype());
  Tensor mixed(rows, 96, dtype());
  Tensor gated(rows, 80, dtype());
  std::vector<RowStatistics> statistics(rows);
  std::vector<BestLogit> best(rows);

  allocations = 0;
  counting = true;
  fast_->embed(hidden.view(), *out_matrix, ids);
  fast_->scale(hidden.view(), 2.0F);
  fast_->norm(normed.view(), hidden.view(), {.eps = 1e-5F, .weight = weight.f32()});
  fast_->matmul(qkv.view(), normed.view(), *qkv_matrix, nullptr);
  fast_->norm_parts(qkv.view(), {.width = 16, .count = 8}, {.eps = 1e-5F, .weight = weight.f32()});
  fast_->rope_and_store_kv(q.view(), qkv.view(), cos_sin.f32(), shape, kv, sequences);
  fast_->attention(mixed.view(), q.view(), shape, kv, sequences);
  fast_->matmul_add(hidden.view(), mixed.view(), *out_matrix, nullptr);
  fast_->add_scaled(hidden.view(), hidden.view(), 0.5F);
  fast_->activate(gated.view(), qkv.view(), Activation::kGeluErf);
  fast_->matmul_activate(gated.view(), normed.view(), {.w = *qkv_matrix, .room = qkv.view()});
  fast_->soft_cap(qkv.view(), 30.0F);
  fast_->row_statistics(statistics, qkv.view());
  fast_->best_logits(best, normed.view(), *qkv_matrix, {.soft_cap = 30.0F}, qkv.view());
  counting = false;
  EXPECT_EQ(allocations, 0);
}

TEST_P(BackendOps, TheCallersFloatingPointModeIsLeftAlone) {
  volatile float tiny = 1e-38F;
  volatile float tenth = 0.1F;
  Tensor x = random_tensor(3, 16, DType::kFloat32, 1);
  Tensor out(3, 16, dtype());
  fast_->norm(out.view(), x.view(), {.eps = 1e-5F, .weight = x.f32()});
  EXPECT_GT(tiny * tenth, 0.0F);
  reference_->norm(out.view(), x.view(), {.eps = 1e-5F, .weight = x.f32()});
  EXPECT_GT(tiny * tenth, 0.0F);
}

TEST(Backends, AnUnknownInstructionSetIsNamedWithTheChoices) {
  const auto pool = make_thread_pool(1);
  try {
    make_cpu_ops(DType::kFloat32, *pool, "sse9");
    FAIL() << "sse9 was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("sse9"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("portable"), std::string::npos);
  }
  EXPECT_THROW(make_cpu_ops(DType::kFloat16, *pool), std::invalid_argument);
  EXPECT_THROW(make_reference_ops(DType::kFloat16), std::invalid_argument);
  EXPECT_FALSE(cpu_features().empty());
}

// A bfloat16 number whose exponent field lies in [lowest, lowest + span).
float random_bf16(std::mt19937& generator, int lowest, int span) {
  const auto sign_and_mantissa = static_cast<std::uint32_t>(generator() & 0x807F0000U);
  const auto exponent = static_cast<std::uint32_t>(
      lowest + static_cast<int>(generator() % static_cast<unsigned>(span)));
  return std::bit_cast<float>(sign_and_mantissa | exponent << 23);
}

TEST(Backends, BFloat16PairsFollowTheDotProductInstructionForRandomAndEdgeValues) {
  // One pair a product and many pairs a row: the instruction's own rounding, denormals included,
  // against the reference's two fused multiply-adds.
  const std::vector<std::string> isas = available_isas();
  struct Range {
    int lowest;
    int span;
  };
  // Ordinary numbers; products around the smallest normal number; sums around it; everything.
  for (const Range range : {Range{110, 30}, Range{60, 8}, Range{56, 12}, Range{0, 255}}) {
    const std::int64_t n = 64;
    for (const std::int64_t k : {2, 4, 16, 70}) {
      Tensor x(28, k, DType::kBFloat16);
      Tensor w(n, k, DType::kBFloat16);
      std::mt19937 generator(static_cast<unsigned>(range.lowest + k));
      for (std::int64_t i = 0; i < x.size(); ++i)
        x.set(i, random_bf16(generator, range.lowest, range.span));
      for (std::int64_t i = 0; i < w.size(); ++i)
        w.set(i, random_bf16(generator, range.lowest, range.span));
      const auto run = [&](Ops& ops) {
        auto matrix = ops.make_matrix({n, k, ReductionTree::single(static_cast<std::int32_t>(k))});
        matrix->set_rows(0, w.view());
        Tensor out(x.view().rows, n);
        ops.matmul(out.view(), x.view(), *matrix, nullptr);
        // An infinity of either sign makes a NaN, whose payload is nobody's promise.
        for (std::int64_t i = 0; i < out.size(); ++i) {
          if (std::isnan(out.at(i))) out.set(i, 12345.0F);
        }
        return out;
      };
      for (const std::string& isa : isas) {
        const Tensor expected = run(*reference_of(isa, DType::kBFloat16));
        const auto pool = make_thread_pool(1);
        const auto ops = make_cpu_ops(DType::kBFloat16, *pool, isa);
        EXPECT_TRUE(same_bits(run(*ops), expected)) << isa << ", exponents from " << range.lowest;
      }
    }
  }
}

TEST(Buffer, IsZeroAlignedAndMovesItsMemory) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{100}, (std::size_t{2} << 20) + 1, std::size_t{5} << 20}) {
    for (int round = 0; round < 3; ++round) {  // memory that comes back used has to be zero again
      Buffer buffer(bytes);
      ASSERT_EQ(buffer.bytes(), bytes);
      const std::size_t alignment = bytes >= (std::size_t{2} << 20) ? std::size_t{2} << 20 : 64;
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment, 0U);
      for (std::size_t i = 0; i < bytes; i += 97) ASSERT_EQ(buffer.data()[i], std::byte{0});
      std::memset(buffer.data(), 0xEE, bytes);
      const Buffer moved = std::move(buffer);
      ASSERT_EQ(moved.data()[bytes - 1], std::byte{0xEE});
    }
  }
  EXPECT_EQ(Buffer(0).data(), nullptr);
}

}  // namespace
}  // namespace headrace
