// The emulator by itself: what it lets pass, what it reports, what its schedules bring out.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/ptx.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/simt.h"
#include "kernels/numeric.h"

namespace headrace {
namespace {

using emulator::EmulatorError;
using emulator::Schedule;
using emulator::ScopedSchedule;

struct Floats {
  float* out;
  int count;
};

// Runs the kernel and gives what it wrote; memory is NaN before.
std::vector<float> outcome(void (*kernel)(Floats), const LaunchShape& shape, int count) {
  std::vector<float> out(static_cast<std::size_t>(count), std::nanf(""));
  launch(kernel, shape, nullptr, Floats{out.data(), count});
  return out;
}

std::string error_of(void (*kernel)(Floats), const LaunchShape& shape) {
  try {
    outcome(kernel, shape, 4096);
  } catch (const EmulatorError& error) {
    return error.what();
  }
  return "";
}

void expect_error(void (*kernel)(Floats), const LaunchShape& shape, const std::string& text) {
  for (const Schedule schedule : {Schedule::kForward, Schedule::kReverse, Schedule::kRandom}) {
    const ScopedSchedule scope(schedule, 3);
    const std::string error = error_of(kernel, shape);
    EXPECT_NE(error.find(text), std::string::npos) << "reported: " << error;
  }
}

HR_KERNEL(64, 1) write_places(Floats args) {
  args.out[(block_y() * 3 + block_x()) * block_threads() + thread_index()] =
      static_cast<float>(1000 * block_y() + 100 * block_x() + thread_index());
}

TEST(Emulator, EveryThreadOfEveryBlockRunsOnce) {
  for (const Schedule schedule : {Schedule::kForward, Schedule::kReverse, Schedule::kRandom}) {
    const ScopedSchedule scope(schedule, 5);
    const std::vector<float> out =
        outcome(write_places, {.grid_x = 3, .grid_y = 2, .threads = 40}, 240);
    for (int i = 0; i < 240; ++i) {
      ASSERT_EQ(out[static_cast<std::size_t>(i)],
                static_cast<float>(1000 * (i / 120) + 100 * (i / 40 % 3) + i % 40));
    }
  }
}

HR_KERNEL(100, 1) return_before_barrier(Floats args) {
  if (thread_index() >= 70) return;
  float* shared = SharedMemory().take<float>(70);
  shared[thread_index()] = static_cast<float>(thread_index());
  sync_block();
  args.out[thread_index()] = shared[69 - thread_index()];
}

TEST(Emulator, ABarrierWaitsOnlyForThreadsThatHaveNotReturned) {
  for (const Schedule schedule : {Schedule::kForward, Schedule::kReverse, Schedule::kRandom}) {
    const ScopedSchedule scope(schedule, 1);
    const std::vector<float> out =
        outcome(return_before_barrier, {.grid_x = 1, .threads = 100, .shared_bytes = 288}, 70);
    for (int i = 0; i < 70; ++i) ASSERT_EQ(out[static_cast<std::size_t>(i)], 69.0F - i);
  }
}

HR_KERNEL(32, 1) shuffle_by_halves(Floats args) {
  const bool low = lane_index() < 16;
  float value = static_cast<float>(lane_index());
  // Two operations of one warp at a time, with masks that do not meet.
  if (low) {
    value += shuffle_xor(value, 1, 0x0000FFFFU);
  } else {
    value += shuffle(value, 31, 0xFFFF0000U);
  }
  args.out[thread_index()] = warp_max(value);
}

TEST(Emulator, HalvesOfAWarpMayShuffleApart) {
  const std::vector<float> out = outcome(shuffle_by_halves, {.grid_x = 1, .threads = 32}, 32);
  for (const float value : out) ASSERT_EQ(value, 62.0F);
}

HR_KERNEL(32, 1) shuffle_with_returned_lane(Floats args) {
  if (lane_index() == 7) return;
  args.out[thread_index()] = shuffle_xor(1.0F, 1);
}

HR_KERNEL(32, 1) shuffle_by_half_with_full_mask(Floats args) {
  if (lane_index() < 16) args.out[thread_index()] = shuffle_xor(1.0F, 1);
}

HR_KERNEL(32, 1) shuffle_outside_own_mask(Floats args) {
  args.out[thread_index()] = shuffle_xor(1.0F, 1, 0x0000FFFFU);
}

HR_KERNEL(32, 1) shuffle_from_outside_the_mask(Floats args) {
  if (lane_index() < 16) args.out[thread_index()] = shuffle(1.0F, 20, 0x0000FFFFU);
}

HR_KERNEL(32, 1) shuffle_in_two_places(Floats args) {
  if (lane_index() < 16) {
    args.out[thread_index()] = shuffle_xor(1.0F, 1);
  } else {
    args.out[thread_index()] = shuffle_xor(1.0F, 2);
  }
}

HR_KERNEL(32, 1) return_from_a_warp_operation(Floats args) {
  if (lane_index() >= 16) sync_warp(0xFFFF0000U);
  if (lane_index() < 16) args.out[thread_index()] = shuffle_xor(1.0F, 1);
}

TEST(Emulator, WarpOperationsWhoseLanesDoNotAgreeAreReported) {
  const LaunchShape warp{.grid_x = 1, .threads = 32};
  expect_error(shuffle_with_returned_lane, warp, "returned");
  expect_error(shuffle_by_half_with_full_mask, warp, "returned");
  expect_error(shuffle_outside_own_mask, warp, "not in the mask of its own");
  expect_error(shuffle_from_outside_the_mask, warp, "from a lane that is not in the mask");
  expect_error(shuffle_in_two_places, warp, "do not agree");
  expect_error(return_from_a_warp_operation, warp, "returned");
  expect_error(shuffle_by_halves, {.grid_x = 1, .threads = 20}, "not there");
}

HR_KERNEL(64, 1) barrier_in_a_branch(Floats args) {
  if (thread_index() < 32) {
    args.out[thread_index()] = 1.0F;
    sync_block();
  } else {
    sync_block();
  }
}

HR_KERNEL(64, 1) barrier_against_shuffle(Floats args) {
  if (lane_index() == 0) sync_block();
  if (lane_index() != 0) args.out[thread_index()] = shuffle_xor(1.0F, 1);
}

TEST(Emulator, BarriersThatCannotBeMetAreReported) {
  const LaunchShape two_warps{.grid_x = 2, .threads = 64};
  expect_error(barrier_in_a_branch, two_warps, "barrier divergence");
  expect_error(barrier_against_shuffle, two_warps, "deadlock");
  expect_error(barrier_against_shuffle, two_warps, "emulator_test.cpp:");
}

HR_KERNEL(32, 1) read_fresh_shared_memory(Floats args) {
  float* shared = SharedMemory().take<float>(32);
  args.out[thread_index()] = shared[thread_index()];
}

TEST(Emulator, FreshSharedMemoryIsNan) {
  const LaunchShape shape{.grid_x = 1, .threads = 32, .shared_bytes = 128};
  for (const float value : outcome(read_fresh_shared_memory, shape, 32)) {
    ASSERT_TRUE(std::isnan(value));
  }
}

HR_KERNEL(32, 1) take_different_pieces(Floats args) {
  float* shared = SharedMemory().take<float>(8 + lane_index() / 16);
  args.out[thread_index()] = shared[0];
}

TEST(Emulator, SharedMemoryBeyondTheLaunchsIsReported) {
  expect_error(read_fresh_shared_memory, {.grid_x = 1, .threads = 32, .shared_bytes = 112},
               "takes 128 bytes of shared memory, its launch asked for 112");
  expect_error(take_different_pieces, {.grid_x = 1, .threads = 32, .shared_bytes = 64},
               "different pieces");
}

TEST(Emulator, LaunchesThatAGpuRefusesAreReported) {
  const LaunchShape bad[] = {{.grid_x = 1, .threads = 0},
                             {.grid_x = 1, .threads = 1025},
                             {.grid_x = 1, .grid_y = 65536, .threads = 32},
                             {.grid_x = 1, .threads = 32, .shared_bytes = 227 * 1024 + 1}};
  for (const LaunchShape& shape : bad) expect_error(write_places, shape, "a GPU refuses");
  EXPECT_EQ(error_of(write_places, {.grid_x = 0, .threads = 32}), "");
}

HR_KERNEL(128, 1) reduce_twice_without_barrier(Floats args) {
  float* scratch = SharedMemory().take<float>(4);
  float sum = 0.0F;
  for (int round = 0; round < 8; ++round) {
    const float own = warp_sum(static_cast<float>(round + thread_index()));
    if (lane_index() == 0) scratch[warp_index()] = own;
    sync_block();
    sum += scratch[0] + scratch[1] + scratch[2] + scratch[3];
    // Missing: a barrier before the next round writes what slower warps still read.
  }
  args.out[thread_index()] = sum;
}

TEST(Emulator, RandomSchedulesBringOutAMissingBarrierBeforeReuse) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer reports the race itself";
#endif
  const LaunchShape shape{.grid_x = 1, .threads = 128, .shared_bytes = 16};
  int wrong = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    const ScopedSchedule scope(Schedule::kRandom, seed);
    bool differs = false;
    for (const float value : outcome(reduce_twice_without_barrier, shape, 128)) {
      differs = differs || value != 8 * 8128 + 28 * 128;
    }
    wrong += differs ? 1 : 0;
  }
  EXPECT_GE(wrong, 3);
}

HR_KERNEL(128, 1) sum_in_blocks(Floats args) {
  float* scratch = SharedMemory().take<float>(4);
  float sum = 0.0F;
  for (int round = 0; round < 8; ++round) {
    sum += block_sum(static_cast<float>(round + thread_index()), scratch);
  }
  args.out[block_x() * 128 + thread_index()] =
      sum + block_max(static_cast<float>(-block_x()), scratch);
}

TEST(Emulator, NoScheduleChangesACorrectKernel) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    const ScopedSchedule scope(Schedule::kRandom, seed);
    const std::vector<float> out =
        outcome(sum_in_blocks, {.grid_x = 3, .threads = 128, .shared_bytes = 16}, 384);
    for (int i = 0; i < 384; ++i) {
      ASSERT_EQ(out[static_cast<std::size_t>(i)], 8 * 8128 + 28 * 128 - i / 128);
    }
  }
}

struct CopyArgs {
  const std::uint16_t* source;
  std::uint16_t* out;
  int wait;
};

HR_KERNEL(32, 1) copy_through_shared(CopyArgs args) {
  auto* shared = SharedMemory().take<std::uint16_t>(8 * 32);
  copy_async_16(shared + 8 * thread_index(), args.source + 8 * thread_index(),
                2 * (thread_index() % 9) % 18);
  close_copy_group();
  if (args.wait != 0) wait_for_copies<0>();
  if (args.wait == 0) wait_for_copies<1>();
  for (int i = 0; i < 8; ++i) args.out[8 * thread_index() + i] = shared[8 * thread_index() + i];
  wait_for_copies<0>();
}

std::vector<std::uint16_t> copied(int wait, unsigned seed) {
  const ScopedSchedule scope(Schedule::kRandom, seed);
  alignas(16) std::uint16_t source[256];
  for (int i = 0; i < 256; ++i) source[i] = static_cast<std::uint16_t>(i + 1);
  std::vector<std::uint16_t> out(256);
  launch(copy_through_shared, {.grid_x = 1, .threads = 32, .shared_bytes = 512}, nullptr,
         CopyArgs{source, out.data(), wait});
  return out;
}

TEST(Emulator, AsynchronousCopiesArriveByTheWaitAndFillUpWithZeros) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const std::vector<std::uint16_t> out = copied(1, seed);
    for (int i = 0; i < 256; ++i) {
      ASSERT_EQ(out[static_cast<std::size_t>(i)], i % 8 < i / 8 % 9 ? i + 1 : 0);
    }
  }
}

TEST(Emulator, AWaitThatIsTooWeakShows) {
  int unfinished = 0;
  for (const std::uint16_t value : copied(0, 1)) unfinished += value == 0xFFFF ? 1 : 0;
  EXPECT_GT(unfinished, 20);
  EXPECT_LT(unfinished, 236);
}

HR_KERNEL(32, 1) copy_without_waiting(Floats args) {
  auto* shared = SharedMemory().take<float>(4 * 32);
  copy_async_16(shared + 4 * thread_index(), args.out + 4 * thread_index(), 16);
  close_copy_group();
}

HR_KERNEL(32, 1) copy_unaligned(Floats args) {
  auto* shared = SharedMemory().take<float>(4 * 32);
  copy_async_16(shared + 1, args.out, 16);
}

TEST(Emulator, CopiesThatNobodyWaitsForOrThatAreNotAlignedAreReported) {
  const LaunchShape shape{.grid_x = 1, .threads = 32, .shared_bytes = 512};
  expect_error(copy_without_waiting, shape, "never waited for");
  expect_error(copy_unaligned, shape, "not aligned");
}

struct ProductArgs {
  const std::uint16_t* a;  // [16][16]
  const std::uint16_t* b;  // [8][16]: a column of the product a row
  const std::uint16_t* c;  // [16][8]
  float* by_rows;          // [16][8] = a times b's transpose
  float* by_columns;       // [16][8] = a times c
};

template <class Multiply>
void products(const ProductArgs& args, const Multiply& multiply) {
  SharedMemory shared;
  auto* a = shared.take<std::uint16_t>(256);
  auto* b = shared.take<std::uint16_t>(256);
  auto* c = shared.take<std::uint16_t>(256);
  const int lane = lane_index();
  for (int i = lane; i < 256; i += 32) {
    a[i] = args.a[i];
    b[i] = i < 128 ? args.b[i] : std::uint16_t{0};
    c[i] = i % 16 < 8 ? args.c[i / 16 * 8 + i % 16] : std::uint16_t{0};
  }
  sync_warp();
  std::uint32_t rows[4];
  std::uint32_t columns[4];
  load_matrices(rows, a + (lane / 8 % 2 * 8 + lane % 8) * 16 + lane / 16 * 8);
  load_matrices(columns, b + (lane / 16 * 8 + lane % 8) * 16 + lane / 8 % 2 * 8);
  float sum[4] = {};
  multiply(sum, {rows, columns[0], columns[1]});
  for (int i = 0; i < 4; ++i) {
    args.by_rows[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
  }
  load_matrices_transposed(columns, c + (lane / 8 % 2 * 8 + lane % 8) * 16 + lane / 16 * 8);
  for (float& value : sum) value = 0.0F;
  multiply(sum, {rows, columns[0], columns[1]});
  for (int i = 0; i < 4; ++i) {
    args.by_columns[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
  }
}

HR_KERNEL(32, 1) bf16_products(ProductArgs args) {
  products(args, [](float(&sum)[4], const Fragments& f) { multiply_bf16(sum, f); });
}
HR_KERNEL(32, 1) f16_products(ProductArgs args) {
  products(args, [](float(&sum)[4], const Fragments& f) { multiply_f16(sum, f); });
}

// Small whole numbers, exact in either type, and no symmetry that would hide a transposed reading.
TEST(Emulator, MatrixInstructionsMultiplyAsAPlainProductDoes) {
  const auto a = [](int row, int k) { return static_cast<float>((3 * row + 5 * k) % 11 - 4); };
  const auto b = [](int k, int column) { return static_cast<float>((7 * k + 2 * column) % 9 - 3); };
  for (const bool bf16 : {true, false}) {
    const auto bits = [bf16](float value) {
      return bf16 ? float_to_bf16(value) : float_to_f16(value);
    };
    std::uint16_t left[256];
    std::uint16_t rows[128];
    std::uint16_t columns[128];
    for (int i = 0; i < 256; ++i) left[i] = bits(a(i / 16, i % 16));
    for (int i = 0; i < 128; ++i) rows[i] = bits(b(i % 16, i / 16));
    for (int i = 0; i < 128; ++i) columns[i] = bits(b(i / 8, i % 8));
    float by_rows[128];
    float by_columns[128];
    launch(bf16 ? bf16_products : f16_products,
           {.grid_x = 1, .threads = 32, .shared_bytes = 3 * 512}, nullptr,
           ProductArgs{left, rows, columns, by_rows, by_columns});
    for (int i = 0; i < 128; ++i) {
      float expected = 0.0F;
      for (int k = 0; k < 16; ++k) expected += a(i / 8, k) * b(k, i % 8);
      ASSERT_EQ(by_rows[i], expected) << i;
      ASSERT_EQ(by_columns[i], expected) << i;
    }
  }
}

}  // namespace
}  // namespace headrace
