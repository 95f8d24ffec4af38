// What one block does in the tensor core kernels of attention (attention.h): a tile of pairs of
// rows and heads against keys and values of one KV head. A warp owns 16 pairs; g = lane / 4 and t =
// lane % 4 place a lane in the fragments (ptx.h): it holds pairs g and g + 8, of scores keys 2 * t
// and 2 * t + 1 of every eight, of sums the same dimensions.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/paged_access.h"
#include "kernels/cuda/ptx.h"
#include "kernels/cuda/simt.h"

namespace headrace {

inline constexpr int kWarpPairs = 16;
inline constexpr int kPiece = 8;  // 16-bit elements of an asynchronous copy, and of a matrix row
inline constexpr float kNothingSeen = -std::numeric_limits<float>::infinity();

/// Sizes of a tile. kDim is head_dim rounded up; what is beyond head_dim is zero.
template <int kDim, int kWarps>
struct TileSizes {
  static constexpr int kPairs = kWarpPairs * kWarps;
  static constexpr int kThreads = kWarpThreads * kWarps;
  static constexpr int kStride = kDim + kPiece;  // the rows of a matrix lie in different banks
  static constexpr int kKeyTiles = kAttentionChunk / kPiece;
  static constexpr int kDimTiles = kDim / kPiece;

  static constexpr int queries() { return kPairs * kStride; }
  static constexpr int keys() { return kAttentionChunk * kStride; }
  static constexpr int totals() { return kPairs * kDim; }
  /// With room for the totals of splits, or without.
  static constexpr int shared_bytes(bool totals_too) {
    return 2 * (queries() + 2 * keys()) + (totals_too ? 4 * totals() : 0);
  }
};

/// How two soft-max states join: both sums scaled to the common maximum.
struct MergeFactors {
  float max;
  float kept;
  float added;
};
HR_DEVICE MergeFactors merge_factors(float max, float other) {
  const float common = other > max ? other : max;
  const float shift = common == kNothingSeen ? 0.0F : common;
  return {.max = common, .kept = exp_f32(max - shift), .added = exp_f32(other - shift)};
}
HR_DEVICE float merged(const MergeFactors& factors, float own, float other) {
  return std::fma(other, factors.added, own * factors.kept);
}

/// A finished element. Adding zero leaves no negative zero, which a merge could not keep.
HR_DEVICE float finished(float sum, float factor) {
  return (sum + 0.0F) * factor;
}

template <class T>
HR_DEVICE void multiply(float (&sum)[4], const Fragments& fragments) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    multiply_bf16(sum, fragments);
  } else {
    multiply_f16(sum, fragments);
  }
}

/// Sums over four lanes with the same g; each gets the sum.
HR_DEVICE float quad_sum(float value) {
  value += shuffle_xor(value, 1);
  return value + shuffle_xor(value, 2);
}
HR_DEVICE float quad_max(float value) {
  for (int lanes = 1; lanes <= 2; lanes *= 2) {
    const float other = shuffle_xor(value, lanes);
    value = other > value ? other : value;
  }
  return value;
}

/// The tile's place in its sequence, the same for all threads of the block.
struct TilePlace {
  DeviceSequence sequence;
  int first = 0;      // pair
  int num_pairs = 0;  // of the sequence
  int group = 0;
  int kv_head = 0;
  int chunk_begin = 0;  // the chunks that some row of the tile sees
  int chunk_end = 0;
  int end = 0;  // keys of the tile's last row, the first that is not read

  HR_DEVICE int position(int pair) const { return sequence.first_position + pair / group; }
  HR_DEVICE int head(int pair) const { return kv_head * group + pair % group; }
};

HR_DEVICE int seen_from(const AttentionShape& shape, int position) {
  const int behind = position + 1 - shape.window;
  return shape.window > 0 && behind > 0 ? behind : 0;
}

HR_DEVICE TilePlace place_of(const AttentionLaunch& args, const AttentionTile& tile, int pairs) {
  TilePlace place;
  place.sequence = args.cache.sequences[tile.sequence];
  place.first = tile.first;
  place.group = args.shape.num_heads / args.shape.num_kv_heads;
  place.num_pairs = place.sequence.num_rows * place.group;
  place.kv_head = block_y();
  const int last = place.first + pairs < place.num_pairs ? place.first + pairs : place.num_pairs;
  place.end = place.position(last - 1) + 1;
  place.chunk_begin = seen_from(args.shape, place.position(place.first)) / kAttentionChunk;
  place.chunk_end = (place.end + kAttentionChunk - 1) / kAttentionChunk;
  if (tile.split >= 0) {
    const int begin = tile.split * kChunksPerSplit;
    place.chunk_begin = begin > place.chunk_begin ? begin : place.chunk_begin;
    place.chunk_end =
        begin + kChunksPerSplit < place.chunk_end ? begin + kChunksPerSplit : place.chunk_end;
  }
  return place;
}

/// Where element 0 of a pair's query and output lies.
HR_DEVICE std::int64_t pair_offset(const AttentionLaunch& args, const TilePlace& place, int pair) {
  const std::int64_t row = place.sequence.first_row + pair / place.group;
  return (row * args.shape.num_heads + place.head(pair)) * args.shape.head_dim;
}

/// What a pair's sums are multiplied by when all its splits are merged: here the sink enters.
HR_DEVICE float pair_factor(const AttentionLaunch& args, const TilePlace& place, int pair,
                            const ScoreSum& scores) {
  return attention_factor(scores, args.shape.sinks, place.head(pair));
}

/// Starts to copy the tile's queries into [kPairs][kStride]; pairs that are not there become zero.
template <class T, int kDim, int kWarps>
HR_DEVICE void load_queries(T* queries, const AttentionLaunch& args, const TilePlace& place) {
  using Sizes = TileSizes<kDim, kWarps>;
  const T* q = static_cast<const T*>(args.q);
  for (int i = thread_index(); i < Sizes::kPairs * Sizes::kDimTiles; i += Sizes::kThreads) {
    const int pair = i / Sizes::kDimTiles;
    const int dim = i % Sizes::kDimTiles * kPiece;
    const bool there = place.first + pair < place.num_pairs && dim < args.shape.head_dim;
    const T* source = there ? q + pair_offset(args, place, place.first + pair) + dim : q;
    copy_async_16(queries + pair * Sizes::kStride + dim, source, there ? 16 : 0);
  }
}

/// The same for a chunk's keys, or its values, [64][kStride]; behind the tile's last key all is
/// zero.
template <class T, int kDim, int kWarps, bool kValues>
HR_DEVICE void load_chunk(T* rows, const AttentionLaunch& args, const TilePlace& place, int chunk) {
  using Sizes = TileSizes<kDim, kWarps>;
  const T* nowhere = reinterpret_cast<const T*>(args.cache.data);
  for (int i = thread_index(); i < kAttentionChunk * Sizes::kDimTiles; i += Sizes::kThreads) {
    const int row = i / Sizes::kDimTiles;
    const int dim = i % Sizes::kDimTiles * kPiece;
    const int key = chunk * kAttentionChunk + row;
    const bool there = key < place.end && dim < args.shape.head_dim;
    const T* source = nowhere;
    if (there) {
      source = key_of<T>(args.cache, place.sequence, key, place.kv_head) + dim +
               (kValues ? value_offset(args.cache) : 0);
    }
    copy_async_16(rows + row * Sizes::kStride + dim, source, there ? 16 : 0);
  }
}

/// The lane's row address for load_matrices(): matrix m of four begins at row
/// (kRowsFirst ? m % 2 : m / 2) * 8 and column (kRowsFirst ? m / 2 : m % 2) * 8 of `corner`.
template <bool kRowsFirst, int kStride, class T>
HR_DEVICE const T* matrix_row(const T* corner) {
  const int matrix = lane_index() / kPiece;
  const int down = kRowsFirst ? matrix % 2 : matrix / 2;
  const int right = kRowsFirst ? matrix / 2 : matrix % 2;
  return corner + (down * kPiece + lane_index() % kPiece) * kStride + right * kPiece;
}

/// A warp's 16 pairs: the online soft-max over the chunks of a split.
template <class T, int kDim, int kWarps>
class WarpTile {
  using Sizes = TileSizes<kDim, kWarps>;

 public:
  HR_DEVICE WarpTile(const AttentionLaunch& args, const TilePlace& place) : shape_(args.shape) {
    for (int h = 0; h < 2; ++h) {
      const int pair = place.first + pair_in_tile(h);
      const bool there = pair < place.num_pairs;
      position_[h] = there ? place.position(pair) : -1;  // a pair that is not there sees nothing
      seen_from_[h] = there ? seen_from(shape_, position_[h]) : 0;
    }
    restart();
  }

  HR_DEVICE static int pair_in_tile(int half) {
    return warp_index() * kWarpPairs + lane_index() / 4 + 8 * half;
  }

  HR_DEVICE void restart() {
    for (auto& tile : sums_) {
      for (float& sum : tile) sum = 0.0F;
    }
    for (int h = 0; h < 2; ++h) {
      max_[h] = kNothingSeen;
      total_[h] = 0.0F;
    }
  }

  /// scores = queries times keys.
  HR_DEVICE void score(const T* queries, const T* keys) {
    for (auto& tile : scores_) {
      for (float& value : tile) value = 0.0F;
    }
    const T* own = queries + warp_index() * kWarpPairs * Sizes::kStride;
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      std::uint32_t a[4];
      load_matrices(a, matrix_row<true, Sizes::kStride>(own + d));
#pragma unroll
      for (int n = 0; n < Sizes::kKeyTiles; n += 2) {
        std::uint32_t b[4];
        load_matrices(b, matrix_row<false, Sizes::kStride>(keys + n * kPiece * Sizes::kStride + d));
        multiply<T>(scores_[n], {a, b[0], b[1]});
        multiply<T>(scores_[n + 1], {a, b[2], b[3]});
      }
    }
  }

  /// Scores become weights, rounded to T; sums and totals move to the new maximum.
  HR_DEVICE void weigh(int chunk) {
    float seen[2] = {max_[0], max_[1]};
#pragma unroll
    for (int n = 0; n < Sizes::kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = chunk * kAttentionChunk + n * kPiece + lane_index() % 4 * 2 + i % 2;
        const int h = i / 2;
        const bool visible = key <= position_[h] && key >= seen_from_[h];
        const float score = visible ? final_score(scores_[n][i]) : kNothingSeen;
        scores_[n][i] = score;
        seen[h] = score > seen[h] ? score : seen[h];
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float new_max = quad_max(seen[h]);
      const float shift = new_max == kNothingSeen ? 0.0F : new_max;
      float added = 0.0F;
#pragma unroll
      for (int n = 0; n < Sizes::kKeyTiles; ++n) {
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          scores_[n][i] = round_to<T>(exp_f32(scores_[n][i] - shift));
          added += scores_[n][i];
        }
      }
      const float rescale = exp_f32(max_[h] - shift);
      total_[h] = std::fma(total_[h], rescale, quad_sum(added));
      max_[h] = new_max;
#pragma unroll
      for (auto& tile : sums_) {
        tile[2 * h] *= rescale;
        tile[2 * h + 1] *= rescale;
      }
    }
  }

  /// sums += weights times values.
  HR_DEVICE void add_values(const T* values) {
#pragma unroll
    for (int k = 0; k < Sizes::kKeyTiles; k += 2) {
      // Fragments of a sum, two side by side, are a fragment of a factor.
      const std::uint32_t a[4] = {pack_pair<T>(scores_[k][0], scores_[k][1]),
                                  pack_pair<T>(scores_[k][2], scores_[k][3]),
                                  pack_pair<T>(scores_[k + 1][0], scores_[k + 1][1]),
                                  pack_pair<T>(scores_[k + 1][2], scores_[k + 1][3])};
#pragma unroll
      for (int n = 0; n < Sizes::kDimTiles; n += 2) {
        std::uint32_t b[4];
        load_matrices_transposed(
            b, matrix_row<true, Sizes::kStride>(values + k * kPiece * Sizes::kStride + n * kPiece));
        multiply<T>(sums_[n], {a, b[0], b[1]});
        multiply<T>(sums_[n + 1], {a, b[2], b[3]});
      }
    }
  }

  /// Joins this split to the totals of those before it. Each thread has its own places.
  HR_DEVICE void merge_into(float* totals, float (&max)[2], float (&total)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const MergeFactors factors = merge_factors(max[h], max_[h]);
#pragma unroll
      for (int n = 0; n < Sizes::kDimTiles; ++n) {
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          float* place = totals + (n * 4 + i) * Sizes::kThreads + thread_index();
          *place = merged(factors, max[h] == kNothingSeen ? 0.0F : *place, sums_[n][i]);
        }
      }
      total[h] = merged(factors, total[h], total_[h]);
      max[h] = factors.max;
    }
  }

  /// Puts totals in the place of the last split's sums.
  HR_DEVICE void take_totals(const float* totals, const float (&max)[2], const float (&total)[2]) {
#pragma unroll
    for (int n = 0; n < Sizes::kDimTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums_[n][i] = totals[(n * 4 + i) * Sizes::kThreads + thread_index()];
      }
    }
    for (int h = 0; h < 2; ++h) {
      max_[h] = max[h];
      total_[h] = total[h];
    }
  }

  /// write(half, first dimension, two sums) for what this lane holds, within head_dim.
  template <class Write>
  HR_DEVICE void for_each_sum(const Write& write) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int n = 0; n < Sizes::kDimTiles; ++n) {
        if (n * kPiece >= shape_.head_dim) continue;
        write(h, n * kPiece + lane_index() % 4 * 2, sums_[n][2 * h], sums_[n][2 * h + 1]);
      }
    }
  }

  HR_DEVICE float max(int half) const {
    return max_[half];
  }
  HR_DEVICE float total(int half) const {
    return total_[half];
  }

 private:
  HR_DEVICE float final_score(float product) const {
    const float score = product * shape_.scale;
    return shape_.soft_cap > 0.0F ? soft_cap_f32(score, shape_.soft_cap) : score;
  }

  const AttentionShape& shape_;
  int position_[2];
  int seen_from_[2];
  float max_[2];
  float total_[2];
  float scores_[Sizes::kKeyTiles][4];
  float sums_[Sizes::kDimTiles][4];
};

}  // namespace headrace
