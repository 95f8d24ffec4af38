// The transports with CUDA's and NCCL's own libraries, as the product links them.
#include <gtest/gtest.h>

#include "comm/device_transport.h"

namespace headrace {
namespace {

TEST(TransportLibraries, LinkAndSayWhatTheyOffer) {
  EXPECT_EQ(why_not(TransportKind::kNccl), "");
  EXPECT_EQ(why_not(TransportKind::kMpiStaged), "");
}

TEST(TransportLibraries, ATransportWithoutAStreamIsRefused) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  EXPECT_THROW(make_device_transport(world, {.kind = TransportKind::kNccl}), std::logic_error);
}

}  // namespace
}  // namespace headrace
