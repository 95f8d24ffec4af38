#include "kernels/cuda/attention_plain.h"

#include <limits>
#include <type_traits>

#include "kernels/cuda/element.h"
#include "kernels/cuda/paged_access.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/simt.h"
#include "kernels/op_checks.h"

namespace headrace {
namespace {

constexpr int kThreads = 128;
constexpr int kDimsPerLane = kMaxHeadDim / kWarpThreads;
constexpr int kKeysPerLane = kAttentionChunk / kWarpThreads;
constexpr int kChains = 16;

// The row and head of a warp.
template <class T>
struct PlainRow {
  const T* query;
  T* out;
  DeviceSequence sequence;
  int head;
  int kv_head;
  int position;
  int seen_from;
};

// query times key as Ops states a chain: 16-bit elements in pairs, the second first.
template <class T>
HR_DEVICE float dot(const T* query, const T* key, int count) {
  float sum = 0.0F;
  if constexpr (std::is_same_v<T, float>) {
    for (int d = 0; d < count; ++d) sum = std::fma(query[d], key[d], sum);
  } else {
    for (int d = 0; d < count; d += 2) {
      sum = std::fma(to_float(query[d + 1]), to_float(key[d + 1]), sum);
      sum = std::fma(to_float(query[d]), to_float(key[d]), sum);
    }
  }
  return sum;
}

// The weights of a chunk: lane l has keys l and l + 32.
struct ChunkWeights {
  float of[kKeysPerLane];
  HR_DEVICE float key(int t) const {
    return shuffle(t < kWarpThreads ? of[0] : of[1], t % kWarpThreads);
  }
};

// Their sum: chain j of 16 takes keys j, j + 16, ..., then pairs of chains 8, 4, 2, 1 apart.
HR_DEVICE float chains_sum(const ChunkWeights& weights) {
  const int chain = lane_index() % kChains;
  float sum = shuffle(weights.of[0], chain);
  sum += shuffle(weights.of[0], chain + kChains);
  sum += shuffle(weights.of[1], chain);
  sum += shuffle(weights.of[1], chain + kChains);
  for (int lanes = kChains / 2; lanes >= 1; lanes /= 2) sum += shuffle_xor(sum, lanes);
  return sum;
}

template <class T>
HR_DEVICE ChunkWeights scores_of(const AttentionLaunch& args, const PlainRow<T>& row, int begin) {
  ChunkWeights scores;
  for (int i = 0; i < kKeysPerLane; ++i) {
    const int key = begin + i * kWarpThreads + lane_index();
    scores.of[i] = -std::numeric_limits<float>::infinity();
    if (key < row.seen_from || key > row.position) continue;
    const T* keys = key_of<T>(args.cache, row.sequence, key, row.kv_head);
    scores.of[i] = dot(row.query, keys, args.shape.head_dim) * args.shape.scale;
    if (args.shape.soft_cap > 0.0F) {
      scores.of[i] = soft_cap_f32(scores.of[i], args.shape.soft_cap);
    }
  }
  return scores;
}

// sums = chain of weight * value over the chunk's keys, from sums * rescale.
template <class T>
HR_DEVICE void add_values(float (&sums)[kDimsPerLane], const AttentionLaunch& args,
                          const PlainRow<T>& row, const ChunkWeights& weights, int begin) {
  const int left = row.position + 1 - begin;
  const int count = left < kAttentionChunk ? left : kAttentionChunk;
  constexpr bool kPairs = !std::is_same_v<T, float>;
  for (int step = 0; step < (kPairs ? (count + 1) / 2 * 2 : count); ++step) {
    const int t = kPairs ? step ^ 1 : step;
    const float weight = weights.key(t);
    if (t >= count) continue;  // the pair's missing half
    const T* value =
        key_of<T>(args.cache, row.sequence, begin + t, row.kv_head) + value_offset(args.cache);
    for (int i = 0; i < kDimsPerLane; ++i) {
      const int d = i * kWarpThreads + lane_index();
      if (d < args.shape.head_dim) sums[i] = std::fma(weight, to_float(value[d]), sums[i]);
    }
  }
}

template <class T>
HR_DEVICE void attend(const AttentionLaunch& args, const PlainRow<T>& row) {
  float sums[kDimsPerLane] = {};
  float max = -std::numeric_limits<float>::infinity();
  float total = 0.0F;
  for (int begin = row.seen_from / kAttentionChunk * kAttentionChunk; begin <= row.position;
       begin += kAttentionChunk) {
    ChunkWeights weights = scores_of(args, row, begin);
    const float chunk_max = warp_max(weights.of[1] > weights.of[0] ? weights.of[1] : weights.of[0]);
    const float new_max = chunk_max > max ? chunk_max : max;
    for (float& weight : weights.of) weight = round_to<T>(exp_f32(weight - new_max));
    const float rescale = exp_f32(max - new_max);
    total = std::fma(total, rescale, chains_sum(weights));
    for (float& sum : sums) sum *= rescale;
    add_values(sums, args, row, weights, begin);
    max = new_max;
  }
  const float factor = attention_factor({.max = max, .total = total}, args.shape.sinks, row.head);
  for (int i = 0; i < kDimsPerLane; ++i) {
    const int d = i * kWarpThreads + lane_index();
    if (d < args.shape.head_dim) row.out[d] = from_float<T>(sums[i] * factor);
  }
}

template <class T>
HR_KERNEL(kThreads, 4)
plain_attention_kernel(AttentionLaunch args) {
  const int heads = args.shape.num_heads;
  const std::int64_t pair = std::int64_t{block_x()} * (kThreads / kWarpThreads) + warp_index();
  if (pair >= args.rows * heads) return;
  const std::int64_t index = args.first_row + pair / heads;
  const int head = static_cast<int>(pair % heads);
  const std::int64_t offset = (index * heads + head) * args.shape.head_dim;
  PlainRow<T> row;
  row.query = static_cast<const T*>(args.q) + offset;
  row.out = static_cast<T*>(args.out) + offset;
  row.sequence = args.cache.sequences[args.row_sequence[pair / heads]];
  row.head = head;
  row.kv_head = head / (heads / args.shape.num_kv_heads);
  row.position = row.sequence.first_position + static_cast<int>(index) - row.sequence.first_row;
  const int behind = row.position + 1 - args.shape.window;
  row.seen_from = args.shape.window > 0 && behind > 0 ? behind : 0;
  attend(args, row);
}

template <class T>
void launch_for(const AttentionLaunch& args, Stream stream) {
  constexpr int kWarps = kThreads / kWarpThreads;
  launch(plain_attention_kernel<T>,
         {.grid_x = (args.rows * args.shape.num_heads + kWarps - 1) / kWarps, .threads = kThreads},
         stream, args);
}

}  // namespace

void launch_plain_attention(const AttentionLaunch& args, Stream stream) {
  with_element_type(args.dtype,
                    [&](auto type) { launch_for<typename decltype(type)::type>(args, stream); });
}

}  // namespace headrace
