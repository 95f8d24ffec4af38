#include "kernels/cuda/step_image.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace headrace {
namespace {

constexpr std::size_t kAlignment = 16;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Appends the elements and returns where they begin.
template <class Element>
std::int64_t append(std::vector<std::byte>& bytes, const std::vector<Element>& elements) {
  const std::size_t begin = bytes.size();
  const std::size_t size = elements.size() * sizeof(Element);
  bytes.resize(begin + aligned(size));
  if (size > 0) std::memcpy(bytes.data() + begin, elements.data(), size);
  return static_cast<std::int64_t>(begin);
}

std::int64_t num_blocks(const SequenceRows& sequence, int block_tokens) {
  return (sequence.first_position + sequence.num_rows + block_tokens - 1) / block_tokens;
}

int group_of(const AttentionShape& shape) {
  return shape.num_heads / shape.num_kv_heads;
}

// The splits [begin, end) that a small tile over all rows of the sequence reads.
struct Splits {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};
Splits splits_of(const SequenceRows& sequence, const AttentionShape& shape) {
  const std::int32_t seen_from =
      shape.window > 0 ? std::max(0, sequence.first_position + 1 - shape.window) : 0;
  const std::int32_t end = sequence.first_position + sequence.num_rows;
  return {seen_from / kSplitKeys, (end + kSplitKeys - 1) / kSplitKeys};
}

bool fits_small_tile(const SequenceRows& sequence, const AttentionShape& shape) {
  return std::int64_t{sequence.num_rows} * group_of(shape) <= kSmallTile;
}

std::int64_t partials_of(const SequenceRows& sequence, const AttentionShape& shape) {
  if (!fits_small_tile(sequence, shape)) return 0;
  const Splits splits = splits_of(sequence, shape);
  return splits.end - splits.begin > 1 ? splits.end - splits.begin : 0;
}

// Most blocks that work on large tiles: the last tile of a sequence may be a part of one.
std::size_t most_large_tiles(const AttentionShape& shape, int max_rows) {
  const auto pairs = static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(group_of(shape));
  return pairs / kLargeTile + pairs / kSmallTile + 1;
}

}  // namespace

std::size_t most_image_bytes(const StepLimits& limits, const AttentionShape& shape, int max_rows) {
  const auto rows = static_cast<std::size_t>(max_rows);
  const auto partials = static_cast<std::size_t>(limits.partials);
  return aligned(rows * sizeof(DeviceSequence)) +
         aligned(static_cast<std::size_t>(limits.tables) * sizeof(std::int32_t)) +
         aligned(rows * sizeof(std::int32_t)) + aligned((rows + partials) * sizeof(AttentionTile)) +
         aligned(most_large_tiles(shape, max_rows) * sizeof(AttentionTile)) +
         aligned(rows * sizeof(AttentionMerge));
}

void StepImageBuilder::reserve(const StepLimits& limits, const AttentionShape& shape,
                               int max_rows) {
  limits_ = limits;
  const auto rows = static_cast<std::size_t>(max_rows);
  sequences_.reserve(rows);
  tables_.reserve(static_cast<std::size_t>(limits.tables));
  row_sequence_.reserve(rows);
  small_tiles_.reserve(rows + static_cast<std::size_t>(limits.partials));
  large_tiles_.reserve(most_large_tiles(shape, max_rows));
  merges_.reserve(rows);
  image_.bytes.reserve(most_image_bytes(limits, shape, max_rows));
}

void StepImageBuilder::add_tiles(const SequenceRows& sequence, const AttentionShape& shape,
                                 std::int32_t index) {
  if (fits_small_tile(sequence, shape)) {
    const Splits splits = splits_of(sequence, shape);
    const std::int32_t count = splits.end - splits.begin;
    if (count > 1) {
      merges_.push_back({index, static_cast<std::int32_t>(partials_), count});
    }
    for (std::int32_t split = splits.begin; split < splits.end; ++split) {
      const auto partial = static_cast<std::int32_t>(count > 1 ? partials_++ : -1);
      small_tiles_.push_back({.sequence = index, .split = split, .partial = partial});
    }
    return;
  }
  const std::int32_t pairs = sequence.num_rows * group_of(shape);
  const std::int32_t last = (pairs - 1) / kLargeTile * kLargeTile;
  // The last rows see most and take longest.
  for (std::int32_t first = last; first >= 0; first -= kLargeTile) {
    large_tiles_.push_back({.sequence = index, .first = first});
  }
  const Splits splits = splits_of(sequence, shape);
  image_.large_tiles_merge = image_.large_tiles_merge || splits.end - splits.begin > 1;
}

std::size_t StepImageBuilder::build(std::span<const SequenceRows> sequences,
                                    const AttentionShape& shape, int block_tokens, bool tiles) {
  sequences_.clear();
  tables_.clear();
  row_sequence_.clear();
  small_tiles_.clear();
  large_tiles_.clear();
  merges_.clear();
  partials_ = 0;
  image_.large_tiles_merge = false;
  image_.first_row = sequences.empty() ? 0 : sequences.front().first_row;
  std::size_t count = 0;
  for (const SequenceRows& sequence : sequences) {
    const std::int64_t blocks = num_blocks(sequence, block_tokens);
    const bool fits = std::ssize(tables_) + blocks <= limits_.tables &&
                      (!tiles || partials_ + partials_of(sequence, shape) <= limits_.partials);
    if (!fits && count == 0) {
      throw std::invalid_argument("attention: a sequence of " +
                                  std::to_string(sequence.first_position + sequence.num_rows) +
                                  " positions is longer than what was reserved");
    }
    if (!fits || sequence.first_row != image_.first_row + std::ssize(row_sequence_)) break;
    const auto index = static_cast<std::int32_t>(count++);
    sequences_.push_back({.first_row = sequence.first_row,
                          .num_rows = sequence.num_rows,
                          .first_position = sequence.first_position,
                          .table = static_cast<std::int32_t>(tables_.size())});
    tables_.insert(tables_.end(), sequence.blocks, sequence.blocks + blocks);
    row_sequence_.insert(row_sequence_.end(), static_cast<std::size_t>(sequence.num_rows), index);
    if (tiles && sequence.num_rows > 0) add_tiles(sequence, shape, index);
  }
  image_.bytes.clear();
  image_.sequences = append(image_.bytes, sequences_);
  image_.tables = append(image_.bytes, tables_);
  image_.row_sequence = append(image_.bytes, row_sequence_);
  image_.small_tiles = append(image_.bytes, small_tiles_);
  image_.large_tiles = append(image_.bytes, large_tiles_);
  image_.merges = append(image_.bytes, merges_);
  image_.num_rows = std::ssize(row_sequence_);
  image_.num_small_tiles = std::ssize(small_tiles_);
  image_.num_large_tiles = std::ssize(large_tiles_);
  image_.num_merges = std::ssize(merges_);
  return count;
}

}  // namespace headrace
