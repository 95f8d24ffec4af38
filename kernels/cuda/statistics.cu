#include "kernels/cuda/statistics.h"

#include <limits>

#include "kernels/cuda/row_slices.h"
#include "kernels/numeric.h"

namespace headrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

struct StatisticsArgs {
  const float* logits;
  RowStatistics* out;
  std::int64_t vocab;
  int slice_floats;
};

struct Exponential {
  float max;
  HR_DEVICE float operator()(float logit) const { return exp_f32(logit - max); }
};

HR_KERNEL(kRowThreads, 4)
row_statistics_kernel(StatisticsArgs args) {
  SharedMemory shared;
  float* scratch = shared.take<float>(kRowThreads / kWarpThreads);
  float* sums = shared.take<float>(args.slice_floats);
  const float* row = args.logits + block_x() * args.vocab;
  const float max = row_max(row, args.vocab, scratch);
  const float sum = sum_in_slices(row, args.vocab, sums, Exponential{max});
  if (thread_index() != 0) return;
  args.out[block_x()] = {.max = max, .log_sum_exp = log_sum_exp_of(max, sum)};
}

struct BestLogitsArgs {
  const float* logits;
  BestLogit* out;
  std::int64_t vocab;
};

// The best of each thread's ids first, then of these the first with the block's maximum. An id is
// below 2^24, so a float holds it.
HR_KERNEL(kRowThreads, 4)
best_logits_kernel(BestLogitsArgs args) {
  SharedMemory shared;
  float* scratch = shared.take<float>(kRowThreads / kWarpThreads);
  const float* row = args.logits + block_x() * args.vocab;
  BestLogit own{-kInfinity, 0};
  float zeros = 0.0F;  // not a number from the first logit on that is not finite
  for_own_ids(row, args.vocab, [&](std::int64_t id, float logit) {
    zeros += logit - logit;
    if (logit > own.value) own = {logit, static_cast<std::int32_t>(id)};
  });
  const float max = block_max(own.value, scratch);
  const bool finite = block_sum(zeros, scratch) == 0.0F;
  const float candidate = own.value == max ? -static_cast<float>(own.id) : -kInfinity;
  const auto first = static_cast<std::int32_t>(-block_max(candidate, scratch));
  if (thread_index() != 0) return;
  args.out[block_x()] = finite ? BestLogit{row[first], first} : BestLogit{kNotANumber, -1};
}

}  // namespace

void launch_best_logits(const BestLogitsLaunch& args, Stream stream) {
  require_vocabulary("best_logits", args.vocab);
  launch(best_logits_kernel,
         {.grid_x = args.rows,
          .threads = kRowThreads,
          .shared_bytes = kRowThreads / kWarpThreads * static_cast<int>(sizeof(float))},
         stream, BestLogitsArgs{.logits = args.logits, .out = args.out, .vocab = args.vocab});
}

void launch_row_statistics(const StatisticsLaunch& args, Stream stream) {
  require_vocabulary("row_statistics", args.vocab);
  const int sums = slice_floats(args.vocab);
  launch(row_statistics_kernel,
         {.grid_x = args.rows,
          .threads = kRowThreads,
          .shared_bytes = (kRowThreads / kWarpThreads + sums) * static_cast<int>(sizeof(float))},
         stream,
         StatisticsArgs{
             .logits = args.logits, .out = args.out, .vocab = args.vocab, .slice_floats = sums});
}

}  // namespace headrace
