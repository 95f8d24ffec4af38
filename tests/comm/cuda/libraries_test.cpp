// The transports with CUDA's and NCCL's own libraries, as the product links them.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "comm/device_transport.h"

namespace headrace {
namespace {

bool is_mapped(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name) != std::string::npos) return true;
  }
  return false;
}

TEST(TransportLibraries, NcclIsLoadedByWhoeverAsksForItFirst) {
  EXPECT_EQ(why_not(TransportKind::kMpiStaged), "");
  EXPECT_FALSE(is_mapped("libnccl"));
  const std::string problem = why_not(TransportKind::kNccl);
  if (problem.empty()) {
    EXPECT_TRUE(is_mapped("libnccl"));
  } else {
    EXPECT_NE(problem.find("NCCL"), std::string::npos) << problem;
  }
}

TEST(TransportLibraries, ATransportWithoutAStreamIsRefused) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  EXPECT_THROW(make_device_transport(world, {.kind = TransportKind::kNccl}), std::logic_error);
}

}  // namespace
}  // namespace headrace
