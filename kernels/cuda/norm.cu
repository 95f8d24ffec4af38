#include "kernels/cuda/norm.h"

#include <cmath>

#include "kernels/cuda/element.h"
#include "kernels/cuda/elementwise_kernel.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/simt.h"

namespace headrace {
namespace {

constexpr int kThreads = 256;

struct NormArgs {
  const float* x;
  void* out;
  std::int64_t row_cols;
  std::int64_t begin;
  int width;
  std::int64_t parts_per_row;
  std::int64_t num_parts;  // of all rows
  const float* weight;
  const float* bias;
  float eps;
  bool centred;
};

/// Threads that norm one part together.
template <int kSize>
class Team {
 public:
  HR_DEVICE explicit Team(float* scratch) : scratch_(scratch) {}
  HR_DEVICE int rank() const { return thread_index() % kSize; }
  HR_DEVICE float sum(float value) const {
    if constexpr (kSize == kWarpThreads) {
      return warp_sum(value);
    } else {
      return block_sum(value, scratch_);
    }
  }

 private:
  float* scratch_;
};

// Sum over this thread's packs of (x - mean), or of its square.
template <int kSize, int kCount, bool kSquares>
HR_DEVICE float own_sum(const float* x, int width, float mean, int rank) {
  float sum = 0.0F;
  for (int i = rank * kCount; i < width; i += kSize * kCount) {
    const Pack<float, kCount> values = load_floats<kCount>(x + i);
    for (const float value : values.items) {
      const float centred = value - mean;
      sum = kSquares ? std::fma(centred, centred, sum) : sum + centred;
    }
  }
  return sum;
}

template <class T, int kSize, int kCount>
HR_KERNEL(kThreads, 4)
norm_kernel(NormArgs args) {
  SharedMemory shared;
  float* scratch = shared.take<float>(kThreads / kWarpThreads);
  const Team<kSize> team(scratch);
  const std::int64_t part = std::int64_t{block_x()} * (kThreads / kSize) + thread_index() / kSize;
  if (part >= args.num_parts) return;  // whole warps, never a part of a team
  const std::int64_t first = part / args.parts_per_row * args.row_cols + args.begin +
                             part % args.parts_per_row * args.width;
  const float* x = args.x + first;
  T* out = static_cast<T*>(args.out) + first;
  const int rank = team.rank();
  const auto count = static_cast<float>(args.width);

  float mean = 0.0F;
  if (args.centred) {
    mean = team.sum(own_sum<kSize, kCount, false>(x, args.width, 0.0F, rank)) / count;
  }
  const float squares = team.sum(own_sum<kSize, kCount, true>(x, args.width, mean, rank));
  const float scale = 1.0F / std::sqrt(squares / count + args.eps);
  for (int i = rank * kCount; i < args.width; i += kSize * kCount) {
    Pack<float, kCount> values = load_floats<kCount>(x + i);
    for (int e = 0; e < kCount; ++e) {
      values.items[e] = (values.items[e] - mean) * scale * args.weight[i + e];
      if (args.bias != nullptr) values.items[e] += args.bias[i + e];
    }
    store_floats<kCount>(out + i, values);
  }
}

template <class T, int kSize>
void launch_team(const NormArgs& args, bool packs, Stream stream) {
  constexpr int kTeams = kThreads / kSize;
  const LaunchShape shape{
      .grid_x = (args.num_parts + kTeams - 1) / kTeams,
      .threads = kThreads,
      .shared_bytes = kThreads / kWarpThreads * static_cast<int>(sizeof(float))};
  if (packs) {
    launch(norm_kernel<T, kSize, kElementwisePack>, shape, stream, args);
  } else {
    launch(norm_kernel<T, kSize, 1>, shape, stream, args);
  }
}

template <class T>
void launch_for(const NormArgs& args, Stream stream) {
  const auto fours = [](std::int64_t count) { return count % kElementwisePack == 0; };
  const bool packs = fours(args.width) && fours(args.begin) && fours(args.row_cols) &&
                     all_aligned({args.x, args.out});
  if (args.width <= kWarpNormWidth) {
    launch_team<T, kWarpThreads>(args, packs, stream);
  } else {
    launch_team<T, kThreads>(args, packs, stream);
  }
}

}  // namespace

void launch_norm(const NormLaunch& launch, Stream stream) {
  const NormArgs args{.x = launch.x,
                      .out = launch.out,
                      .row_cols = launch.row_cols,
                      .begin = launch.parts.begin,
                      .width = static_cast<int>(launch.parts.width),
                      .parts_per_row = launch.parts.count,
                      .num_parts = launch.rows * launch.parts.count,
                      .weight = launch.norm.weight,
                      .bias = launch.norm.bias,
                      .eps = launch.norm.eps,
                      .centred = launch.norm.kind == NormKind::kLayer};
  with_element_type(launch.out_dtype,
                    [&](auto type) { launch_for<typename decltype(type)::type>(args, stream); });
}

}  // namespace headrace
