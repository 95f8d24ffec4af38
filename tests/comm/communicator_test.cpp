#include "comm/communicator.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

TEST(Communicator, GathersTextsOfAnyLengthInOrderOfRank) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  const std::string mine(static_cast<std::size_t>(world.rank()) * 3,
                         'a' + static_cast<char>(world.rank()));
  const std::vector<std::string> all = world.gather(mine, 0);
  if (world.rank() != 0) {
    EXPECT_TRUE(all.empty());
    return;
  }
  ASSERT_EQ(static_cast<int>(all.size()), world.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    EXPECT_EQ(all[r], std::string(r * 3, static_cast<char>('a' + r)));
  }
}

TEST(Communicator, BroadcastsTextAndFindsTheSmallest) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  EXPECT_EQ(world.broadcast(world.rank() == 0 ? std::string("key") : std::string(), 0), "key");
  EXPECT_EQ(world.min(100 - world.rank()), 100 - (world.size() - 1));
}

TEST(Communicator, RanksOfOneMachineShareMemory) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  EXPECT_EQ(Communicator::shared_memory(world.get()).size(), world.size());
}

}  // namespace
}  // namespace headrace
