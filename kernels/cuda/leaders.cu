#include "kernels/cuda/leaders.h"

#include <limits>

#include "kernels/cuda/row_slices.h"
#include "kernels/exponential.h"

namespace headrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// How far below the maximum the leaders may reach, in units of the temperature: beyond kMinExponent
// there are no weights. As deep as they have room, of kLevels depths, and then of as many between
// that and the next.
constexpr float kDeepest = 90.0F;
constexpr int kLevels = 8;
constexpr int kRounds = 2;

struct LeadersArgs {
  const float* logits;
  const float* temperatures;
  LeadersRecord* out;
  std::int64_t vocab;
  int slice_floats;
};

struct Weight {
  float max;
  float inverse_temperature;
  HR_DEVICE float operator()(float logit) const {
    return exp_nonpositive((logit - max) * inverse_temperature);
  }
};

struct Row {
  const float* logits;
  std::int64_t vocab;
  float max;
  float temperature;
  HR_DEVICE float floor_at(float depth) const { return max - depth * temperature; }
};

// Of the depths begin + width, begin + 2 * width, ... how many have room for all ids above them.
HR_DEVICE int levels_with_room(const Row& row, float begin, float width, float* scratch) {
  float floors[kLevels];
  int counts[kLevels] = {};
  for (int l = 0; l < kLevels; ++l) {
    floors[l] = row.floor_at(begin + static_cast<float>(l + 1) * width);
  }
  for_own_ids(row.logits, row.vocab, [&](std::int64_t /*id*/, float logit) {
    for (int l = 0; l < kLevels; ++l) counts[l] += logit >= floors[l] ? 1 : 0;
  });
  int levels = 0;
  for (int l = 0; l < kLevels; ++l) {
    // Exact: there are fewer than 2^24 ids.
    const float count = block_sum(static_cast<float>(counts[l]), scratch);
    levels += count <= static_cast<float>(kMostLeaders) ? 1 : 0;
  }
  return levels;
}

// The depth as far as there is room, 0 where there is not even for the first level.
HR_DEVICE float depth_with_room(const Row& row, float* scratch) {
  float depth = 0.0F;
  float width = kDeepest;
  for (int round = 0; round < kRounds; ++round) {
    width /= static_cast<float>(kLevels);
    depth += static_cast<float>(levels_with_room(row, depth, width, scratch)) * width;
  }
  return depth;
}

// The ids above the floor, those of a thread beside each other. Gives their number, in every
// thread.
HR_DEVICE int write_leaders(const Row& row, float floor, LeadingLogit* leading, float* scratch) {
  int own = 0;
  for_own_ids(row.logits, row.vocab,
              [&](std::int64_t /*id*/, float logit) { own += logit >= floor ? 1 : 0; });
  auto place = static_cast<int>(block_sum_before(static_cast<float>(own), scratch));
  for_own_ids(row.logits, row.vocab, [&](std::int64_t id, float logit) {
    if (logit >= floor) leading[place++] = {static_cast<std::int32_t>(id), logit};
  });
  return static_cast<int>(block_sum(static_cast<float>(own), scratch));
}

HR_KERNEL(kRowThreads, 4)
leaders_kernel(LeadersArgs args) {
  SharedMemory shared;
  float* scratch = shared.take<float>(kRowThreads / kWarpThreads);
  float* sums = shared.take<float>(args.slice_floats);
  LeadersRecord& out = args.out[block_x()];
  const float temperature = args.temperatures[block_x()];
  if (!(temperature > 0.0F)) {
    if (thread_index() == 0) out.count = 0;
    return;
  }
  Row row{args.logits + block_x() * args.vocab, args.vocab, 0.0F, temperature};
  row.max = row_max(row.logits, args.vocab, scratch);
  const float total =
      sum_in_slices(row.logits, args.vocab, sums, Weight{row.max, 1.0F / temperature});
  const float depth = depth_with_room(row, scratch);
  const float floor = depth > 0.0F ? row.floor_at(depth) : kInfinity;
  const int count = depth > 0.0F ? write_leaders(row, floor, out.leading, scratch) : 0;
  if (thread_index() != 0) return;
  out.max = row.max;
  out.total = total;
  out.floor = floor;
  out.count = count;
}

}  // namespace

void launch_leaders(const LeadersLaunch& args, Stream stream) {
  require_vocabulary("leading_logits", args.vocab);
  const int sums = slice_floats(args.vocab);
  launch(leaders_kernel,
         {.grid_x = args.rows,
          .threads = kRowThreads,
          .shared_bytes = (kRowThreads / kWarpThreads + sums) * static_cast<int>(sizeof(float))},
         stream,
         LeadersArgs{.logits = args.logits,
                     .temperatures = args.temperatures,
                     .out = args.out,
                     .vocab = args.vocab,
                     .slice_floats = sums});
}

}  // namespace headrace
