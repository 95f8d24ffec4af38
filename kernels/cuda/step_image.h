// What kernels have to know of a step's sequences, as one run of bytes to be copied to the device:
// sequences, block tables, the sequence of each row, and for attention the work of each block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/paged_cache.h"
#include "kernels/ops.h"

namespace headrace {

/// How much one image may hold. A step that needs more is worked on in groups of its sequences.
struct StepLimits {
  std::int64_t tables = 0;    // block ids
  std::int64_t partials = 0;  // splits that are merged by a second kernel
};

/// Offsets are bytes from the image's begin, multiples of 16.
struct StepImage {
  std::vector<std::byte> bytes;
  std::int64_t sequences = 0;
  std::int64_t tables = 0;
  std::int64_t row_sequence = 0;  // one int32 a row, the first for first_row
  std::int64_t small_tiles = 0;
  std::int64_t large_tiles = 0;
  std::int64_t merges = 0;

  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  std::int64_t num_small_tiles = 0;
  std::int64_t num_large_tiles = 0;
  std::int64_t num_merges = 0;
  bool large_tiles_merge = false;
};

/// Largest image of up to max_rows rows.
std::size_t most_image_bytes(const StepLimits& limits, const AttentionShape& shape, int max_rows);

/// Builds images without allocating again once it has built the largest.
class StepImageBuilder {
 public:
  void reserve(const StepLimits& limits, const AttentionShape& shape, int max_rows);

  /// Puts as many of the sequences, from the first on, into the image as the limits allow, at least
  /// one; their rows follow each other. With `tiles` also the work of attention's blocks. Returns
  /// their number.
  std::size_t build(std::span<const SequenceRows> sequences, const AttentionShape& shape,
                    int block_tokens, bool tiles);

  const StepImage& image() const { return image_; }

 private:
  void add_tiles(const SequenceRows& sequence, const AttentionShape& shape, std::int32_t index);

  StepLimits limits_;
  StepImage image_;
  std::vector<DeviceSequence> sequences_;
  std::vector<std::int32_t> tables_;
  std::vector<std::int32_t> row_sequence_;
  std::vector<AttentionTile> small_tiles_;
  std::vector<AttentionTile> large_tiles_;
  std::vector<AttentionMerge> merges_;
  std::int64_t partials_ = 0;
};

}  // namespace headrace
