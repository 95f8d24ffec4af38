#include "comm/clock_alignment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace headrace {
namespace {

TEST(ClockAlignment, RanksOfOneMachineShareAClockUpToTheErrorThatIsStated) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  for (int round = 0; round < 3; ++round) {
    const ClockOffset offset = align_clock(world);
    EXPECT_LE(std::abs(offset.offset_ns), offset.error_ns);
    if (world.rank() == 0) {
      EXPECT_EQ(offset.error_ns, 0);
    } else {
      EXPECT_GT(offset.error_ns, 0);
    }
  }
}

}  // namespace
}  // namespace headrace
