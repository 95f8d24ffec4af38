// Which neighbours a byte-pair encoding joins: (left, right) to (rank, joined id), in one flat
// table.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/token.h"

namespace headrace {

struct Merge {
  std::uint32_t rank = 0;
  TokenId joined = -1;
};

class MergeTable {
 public:
  static constexpr std::uint32_t kNoRank = UINT32_MAX;

  /// For up to `capacity` pairs.
  explicit MergeTable(std::size_t capacity) : slots_(std::bit_ceil(capacity * 2 + 2)) {}

  /// A pair given again gets the later rank.
  void set(TokenId left, TokenId right, Merge merge) {
    Slot& slot = slots_[slot_of(key(left, right))];
    slot = {.key = key(left, right), .merge = merge};
  }

  /// Rank kNoRank where the two do not join.
  Merge find(TokenId left, TokenId right) const { return slots_[slot_of(key(left, right))].merge; }

 private:
  static constexpr std::uint64_t kFree = UINT64_MAX;
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge = {.rank = kNoRank, .joined = -1};
  };

  static std::uint64_t key(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const {
    // Fibonacci hashing; the upper bits of the product depend on all of the key.
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = (key * 0x9E3779B97F4A7C15U >> 29) & mask;
    while (slots_[slot].key != key && slots_[slot].key != kFree) slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<Slot> slots_;
};

}  // namespace headrace
