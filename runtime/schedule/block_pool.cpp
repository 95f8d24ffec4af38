#include "runtime/schedule/block_pool.h"

#include <stdexcept>
#include <string>

namespace headrace {

BlockPool::BlockPool(int num_blocks) {
  if (num_blocks < 0) {
    throw std::invalid_argument("block pool: num_blocks is " + std::to_string(num_blocks) +
                                ", must not be negative");
  }
  num_owners_.assign(static_cast<std::size_t>(num_blocks), 0);
  free_.reserve(static_cast<std::size_t>(num_blocks));
  for (BlockId block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

std::optional<BlockId> BlockPool::try_allocate() {
  if (free_.empty()) return std::nullopt;
  const BlockId block = free_.back();
  free_.pop_back();
  num_owners_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void BlockPool::share(BlockId block) {
  ++owners_in_use(block);
}

void BlockPool::release(BlockId block) {
  if (--owners_in_use(block) == 0) free_.push_back(block);
}

std::int32_t& BlockPool::owners_in_use(BlockId block) {
  if (block < 0 || block >= num_blocks() || num_owners_[static_cast<std::size_t>(block)] == 0) {
    throw std::logic_error("block pool: block " + std::to_string(block) + " of " +
                           std::to_string(num_blocks()) + " is not in use");
  }
  return num_owners_[static_cast<std::size_t>(block)];
}

}  // namespace headrace
