#include "kernels/cuda/statistics.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/simt.h"
#include "kernels/numeric.h"

namespace headrace {
namespace {

constexpr int kThreads = 256;
constexpr int kChains = 16;
constexpr std::int64_t kSlice = 1024;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kMostIds = std::int64_t{4} << 20;  // their slices' sums fit 16 KB

struct StatisticsArgs {
  const float* logits;
  RowStatistics* out;
  std::int64_t vocab;
  int num_slices;
};

HR_DEVICE float row_max(const float* row, std::int64_t vocab, float* scratch) {
  float max = row[0];
  for (std::int64_t i = thread_index(); i < vocab; i += kThreads) max = row[i] > max ? row[i] : max;
  return block_max(max, scratch) + 0.0F;  // never a negative zero
}

// One slice's sum, in every lane of the half warp: chains ascending, then pairs 8, 4, 2, 1 apart.
HR_DEVICE float slice_sum(const float* slice, std::int64_t count, float max) {
  const int chain = thread_index() % kChains;
  float sum = 0.0F;
  for (std::int64_t i = chain; i < count; i += kChains) sum += exp_f32(slice[i] - max);
  for (int lanes = kChains / 2; lanes >= 1; lanes /= 2) sum += shuffle_xor(sum, lanes);
  return sum;
}

HR_KERNEL(kThreads, 4)
row_statistics_kernel(StatisticsArgs args) {
  SharedMemory shared;
  float* scratch = shared.take<float>(kThreads / kWarpThreads);
  float* sums = shared.take<float>(args.num_slices);
  const float* row = args.logits + block_x() * args.vocab;
  const float max = row_max(row, args.vocab, scratch);

  // Both halves of a warp go round as often, since they shuffle together.
  constexpr int kHalves = kThreads / kChains;
  for (int first = 0; first < args.num_slices; first += kHalves) {
    const int slice = first + thread_index() / kChains;
    const std::int64_t begin = slice * kSlice;
    const std::int64_t left = args.vocab - begin;
    const float sum = slice_sum(row + begin, left < kSlice ? left : kSlice, max);
    if (thread_index() % kChains == 0 && slice < args.num_slices) sums[slice] = sum;
  }
  sync_block();
  if (thread_index() != 0) return;
  float sum = 0.0F;
  for (int slice = 0; slice < args.num_slices; ++slice) sum += sums[slice];
  args.out[block_x()] = {.max = max, .log_sum_exp = log_sum_exp_of(max, sum)};
}

struct BestLogitsArgs {
  const float* logits;
  BestLogit* out;
  std::int64_t vocab;
};

// The best of each thread's ids first, then of these the first with the block's maximum. An id is
// below 2^24, so a float holds it.
HR_KERNEL(kThreads, 4)
best_logits_kernel(BestLogitsArgs args) {
  SharedMemory shared;
  float* scratch = shared.take<float>(kThreads / kWarpThreads);
  const float* row = args.logits + block_x() * args.vocab;
  BestLogit own{-kInfinity, 0};
  float zeros = 0.0F;  // not a number from the first logit on that is not finite
  for (std::int64_t i = thread_index(); i < args.vocab; i += kThreads) {
    const float value = row[i];
    zeros += value - value;
    if (value > own.value) own = {value, static_cast<std::int32_t>(i)};
  }
  const float max = block_max(own.value, scratch);
  const bool finite = block_sum(zeros, scratch) == 0.0F;
  const float candidate = own.value == max ? -static_cast<float>(own.id) : -kInfinity;
  const auto first = static_cast<std::int32_t>(-block_max(candidate, scratch));
  if (thread_index() != 0) return;
  args.out[block_x()] = finite ? BestLogit{row[first], first} : BestLogit{kNotANumber, -1};
}

void require_vocabulary(const char* name, std::int64_t vocab) {
  if (vocab < 1 || vocab > kMostIds) {
    throw std::invalid_argument(std::string(name) + ": rows of " + std::to_string(vocab) +
                                " ids, on the GPU 1 to " + std::to_string(kMostIds));
  }
}

}  // namespace

void launch_best_logits(const BestLogitsLaunch& args, Stream stream) {
  require_vocabulary("best_logits", args.vocab);
  launch(best_logits_kernel,
         {.grid_x = args.rows,
          .threads = kThreads,
          .shared_bytes = kThreads / kWarpThreads * static_cast<int>(sizeof(float))},
         stream, BestLogitsArgs{.logits = args.logits, .out = args.out, .vocab = args.vocab});
}

void launch_row_statistics(const StatisticsLaunch& args, Stream stream) {
  require_vocabulary("row_statistics", args.vocab);
  const auto slices = static_cast<int>((args.vocab + kSlice - 1) / kSlice);
  const int sums = (slices + 3) / 4 * 4;
  launch(row_statistics_kernel,
         {.grid_x = args.rows,
          .threads = kThreads,
          .shared_bytes = (kThreads / kWarpThreads + sums) * static_cast<int>(sizeof(float))},
         stream,
         StatisticsArgs{
             .logits = args.logits, .out = args.out, .vocab = args.vocab, .num_slices = slices});
}

}  // namespace headrace
