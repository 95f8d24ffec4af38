// Which KV blocks of a replica are in use, and by how many owners. The head alone allocates; stages
// only follow the ids in StepPlans. A block is free again when its last owner lets go.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/schedule/step_plan.h"

namespace headrace {

class BlockPool {
 public:
  /// All blocks free. Throws std::invalid_argument for a negative count.
  explicit BlockPool(int num_blocks);

  int num_blocks() const { return static_cast<int>(num_owners_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }

  /// A block with one owner, or nullopt when none is free.
  std::optional<BlockId> try_allocate();

  /// One more owner for a block in use. Throws std::logic_error for a free or unknown one.
  void share(BlockId block);

  /// One owner less; the last one frees the block. Throws std::logic_error for a free or unknown
  /// one.
  void release(BlockId block);

  int num_owners(BlockId block) const { return num_owners_.at(static_cast<std::size_t>(block)); }

 private:
  std::int32_t& owners_in_use(BlockId block);

  std::vector<std::int32_t> num_owners_;  // [num_blocks]
  // Last in, first out: a block just freed is the likeliest to be in a cache. Reserved to the full
  // count, so nothing allocates later.
  std::vector<BlockId> free_;
};

}  // namespace headrace
