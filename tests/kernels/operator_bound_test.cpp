#include "kernels/operator_bound.h"

#include <gtest/gtest.h>

#include <array>

#include "kernels/span_recorder.h"
#include "kernels/thread_pool.h"
#include "kernels/traced_ops.h"

namespace headrace {
namespace {

// Peaks that make flops and bytes easy to tell: 2, 4 and 8 flops and 10 bytes a nanosecond.
constexpr MachinePeaks kPeaks = {
    .float32 = 2.0, .bfloat16 = 4.0, .int8 = 8.0, .memory_gigabytes = 10.0};
const MachineBound kBound(kPeaks);

constexpr AttentionShape kShape = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8};

std::int64_t of(const PhaseTimes& times, Phase phase) {
  return times[static_cast<std::size_t>(phase)];
}

TEST(OperatorBound, AProductMultipliesEveryRowByTheWholeMatrixAndReadsItOnce) {
  const auto ops = make_reference_ops(DType::kFloat32);
  const auto matrix = ops->make_matrix({.n = 3, .k = 4, .tree = ReductionTree::single(4)});
  const OperatorWork work = product_work(2, *matrix);
  EXPECT_EQ(work.flops, 48.0);  // 2 * 3 * 4 multiply-adds
  EXPECT_EQ(work.bytes, static_cast<double>(matrix->bytes()));
  EXPECT_GE(work.bytes, 48.0);
  EXPECT_EQ(product_work(0, *matrix).bytes, 0.0);
}

TEST(OperatorBound, ARowMeetsTheKeysUpToItsOwnAndASequencesKeysAreReadOnce) {
  // Rows at positions 2 and 3 see 3 and 4 keys; the other sequence's row sees 1.
  const std::array<SequenceRows, 2> sequences = {
      SequenceRows{.first_row = 0, .num_rows = 2, .first_position = 2},
      SequenceRows{.first_row = 2, .num_rows = 1, .first_position = 0}};
  const OperatorWork work = attention_work(kShape, DType::kBFloat16, sequences);
  EXPECT_EQ(work.flops, 8.0 * 4 * 8 * 4);      // 8 pairs, 4 heads of 8, query and value
  EXPECT_EQ(work.bytes, 5.0 * 2 * 2 * 8 * 2);  // 5 keys and values, 2 heads of 8, 2 bytes
}

TEST(OperatorBound, AWindowHidesKeysAndIntegersTakeOneByteAndAScale) {
  AttentionShape shape = kShape;
  shape.window = 2;
  shape.kv_type = KvType::kInt8;
  const std::array<SequenceRows, 1> sequences = {
      SequenceRows{.first_row = 0, .num_rows = 3, .first_position = 4}};
  const OperatorWork work = attention_work(shape, DType::kBFloat16, sequences);
  EXPECT_EQ(work.flops, 6.0 * 4 * 8 * 4);        // 2 keys for each of 3 rows
  EXPECT_EQ(work.bytes, 4.0 * 2 * 2 * (8 + 2));  // positions 3 to 6
}

TEST(OperatorBound, TheSlowerOfMultiplyingAndReadingCounts) {
  EXPECT_EQ(kBound.least_ns({.flops = 800, .bytes = 300}, Arithmetic::kFloat32), 400);
  EXPECT_EQ(kBound.least_ns({.flops = 800, .bytes = 300}, Arithmetic::kBFloat16), 200);
  EXPECT_EQ(kBound.least_ns({.flops = 800, .bytes = 300}, Arithmetic::kInt8), 100);
  EXPECT_EQ(kBound.least_ns({.flops = 800, .bytes = 5000}, Arithmetic::kInt8), 500);
  MachinePeaks without_int8 = kPeaks;
  without_int8.int8 = 0.0;
  EXPECT_EQ(MachineBound(without_int8).least_ns({.flops = 800}, Arithmetic::kInt8), 0);
  EXPECT_EQ(MachineBound().least_ns({.flops = 800, .bytes = 5000}, Arithmetic::kFloat32), 0);
}

TEST(OperatorBound, TracedOperatorsRecordItForTheirPhase) {
  const auto pool = make_thread_pool(1);
  SpanRecorder recorder(16);
  const auto ops =
      make_traced_ops(make_cpu_ops(DType::kFloat32, *pool, "portable"), recorder,
                      MachineBound({.float32 = 1e-3, .int8 = 4e-3, .memory_gigabytes = 1e3}));
  constexpr std::int64_t kK = 64;
  const auto plain = ops->make_matrix({.n = 16, .k = kK, .tree = ReductionTree::single(kK)});
  const auto integers = ops->make_matrix(
      {.n = 16, .k = kK, .tree = ReductionTree::single(kK), .quantization = Quantization::kInt8});
  const std::vector<float> zeros(16 * kK, 0.0F);
  const auto* weights = reinterpret_cast<const std::byte*>(zeros.data());
  plain->set_rows(0, {weights, 16, kK, DType::kFloat32});
  integers->set_rows(0, {weights, 16, kK, DType::kFloat32});
  std::vector<float> out(2 * 16);
  const TensorView result{reinterpret_cast<std::byte*>(out.data()), 2, 16, DType::kFloat32};
  const ConstTensorView x{weights, 2, kK, DType::kFloat32};

  recorder.start();
  ops->matmul(result, x, *plain, nullptr);
  recorder.enter(Phase::kSampling);
  ops->matmul(result, x, *integers, nullptr);
  recorder.leave();
  EXPECT_EQ(recorder.bounds(), PhaseTimes{});  // nothing has been done for good yet
  recorder.mark_worked();
  EXPECT_EQ(of(recorder.bounds(), Phase::kGemm), 2 * 2 * 16 * kK * 1000);
  EXPECT_EQ(of(recorder.bounds(), Phase::kHeadGemm), 2 * 2 * 16 * kK * 250);
  EXPECT_EQ(of(recorder.bounds(), Phase::kSampling), 0);
  recorder.stop();
}

}  // namespace
}  // namespace headrace
