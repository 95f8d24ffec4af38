#include "runtime/schedule/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace headrace {
namespace {

TEST(BlockPool, GivesEachBlockOnceAndThenNone) {
  BlockPool pool(5);
  std::set<BlockId> seen;
  for (int i = 0; i < 5; ++i) seen.insert(*pool.try_allocate());
  EXPECT_EQ(seen, (std::set<BlockId>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.try_allocate(), std::nullopt);
}

TEST(BlockPool, SharedBlockIsFreedByItsLastOwner) {
  BlockPool pool(1);
  const BlockId block = *pool.try_allocate();
  pool.share(block);
  EXPECT_EQ(pool.num_owners(block), 2);
  pool.release(block);
  EXPECT_EQ(pool.num_free(), 0);
  pool.release(block);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.try_allocate(), block);
}

TEST(BlockPool, RefusesBlocksThatAreNotInUse) {
  BlockPool pool(2);
  EXPECT_THROW(pool.release(0), std::logic_error);
  EXPECT_THROW(pool.share(1), std::logic_error);
  EXPECT_THROW(pool.release(-1), std::logic_error);
  EXPECT_THROW(pool.release(2), std::logic_error);
  const BlockId block = *pool.try_allocate();
  pool.release(block);
  EXPECT_THROW(pool.release(block), std::logic_error);
  EXPECT_THROW(BlockPool(-1), std::invalid_argument);
}

TEST(BlockPool, CountsNeverLeakWhateverTheOrderOfEvents) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const int num_blocks = static_cast<int>(random() % 12);
    BlockPool pool(num_blocks);
    std::vector<BlockId> owned;  // one item for each owner
    for (int event = 0; event < 200; ++event) {
      const std::uint32_t choice = random() % 3;
      if (choice == 0) {
        const auto block = pool.try_allocate();
        ASSERT_EQ(
            block.has_value(),
            static_cast<int>(std::set<BlockId>(owned.begin(), owned.end()).size()) < num_blocks);
        if (block) owned.push_back(*block);
      } else if (!owned.empty()) {
        const std::size_t which = random() % owned.size();
        if (choice == 1) {
          pool.share(owned[which]);
          owned.push_back(owned[which]);
        } else {
          pool.release(owned[which]);
          owned.erase(owned.begin() + static_cast<std::ptrdiff_t>(which));
        }
      }
      const std::set<BlockId> in_use(owned.begin(), owned.end());
      ASSERT_EQ(pool.num_free(), num_blocks - static_cast<int>(in_use.size())) << seed;
    }
    for (const BlockId block : owned) pool.release(block);
    ASSERT_EQ(pool.num_free(), num_blocks) << seed;
  }
}

}  // namespace
}  // namespace headrace
