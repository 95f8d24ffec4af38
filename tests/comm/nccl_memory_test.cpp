// What is left to NCCL of a GPU. The sizes of single buffers are those that its log shows for a
// default configuration: 10 MiB where a connection ends, 2 MiB where it begins.
#include "comm/nccl_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace headrace {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TransportOptions group_of(int size) {
  TransportOptions options{.kind = TransportKind::kNccl};
  for (int rank = 0; rank < size; ++rank) options.group.push_back(rank);
  return options;
}

TEST(NcclMemory, IsThatOfTheConnectionsOfAnEdge) {
  EXPECT_EQ(nccl_bytes({.kind = TransportKind::kNccl, .upstream = 0}), (2 + 8 * 10) * kMiB);
  // The simple buffer may lie with the sender.
  EXPECT_EQ(nccl_bytes({.kind = TransportKind::kNccl, .downstream = 2}), (2 + 8 * 6) * kMiB);
  EXPECT_EQ(nccl_bytes({.kind = TransportKind::kNccl, .upstream = 0, .downstream = 2}),
            (2 + 80 + 2 + 48) * kMiB);
}

TEST(NcclMemory, GrowsWithTheGroupUpToThePeersOfARank) {
  // Queue, 16 channels of 12 MiB a peer, and 32 MiB of NVLink SHARP a rank.
  EXPECT_EQ(nccl_bytes(group_of(2)), (2 + 16 * 12 + 2 * 32) * kMiB);
  EXPECT_EQ(nccl_bytes(group_of(4)), (2 + 16 * 3 * 12 + 4 * 32) * kMiB);
  EXPECT_EQ(nccl_bytes(group_of(8)), (2 + 16 * 6 * 12 + 8 * 32) * kMiB);
}

TEST(NcclMemory, IsNoneWhereNcclTakesNoPart) {
  EXPECT_EQ(nccl_bytes({.kind = TransportKind::kMpiStaged, .upstream = 0}), 0U);
  EXPECT_EQ(nccl_bytes(group_of(1)), 0U);
  EXPECT_EQ(nccl_bytes({.kind = TransportKind::kNccl}), 0U);
}

TEST(NcclMemory, FollowsTheEnvironmentAsNcclDoes) {
  const TransportOptions edge{.kind = TransportKind::kNccl, .upstream = 0};
  setenv("NCCL_BUFFSIZE", "16777216", 1);
  EXPECT_EQ(nccl_bytes(edge), (2 + 8 * 22) * kMiB);
  setenv("NCCL_LL128_BUFFSIZE", "0x1e000", 1);
  EXPECT_EQ(nccl_bytes(edge), (2 + 8 * 18) * kMiB);
  setenv("NCCL_BUFFSIZE", "plenty", 1);
  unsetenv("NCCL_LL128_BUFFSIZE");
  EXPECT_EQ(nccl_bytes(edge), (2 + 8 * 10) * kMiB);
  unsetenv("NCCL_BUFFSIZE");
}

}  // namespace
}  // namespace headrace
