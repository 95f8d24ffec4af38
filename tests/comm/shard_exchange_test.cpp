#include "comm/mpi_exchange.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <thread>

namespace headrace {
namespace {

constexpr std::size_t kCapacity = 4096;

// Bytes that a rank publishes in a round: their number and content tell both.
std::vector<std::byte> content(int rank, int round) {
  std::vector<std::byte> bytes(static_cast<std::size_t>((rank * 131 + round * 517) % 4000) + 1);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<int>(i) + rank * 7 + round * 13);
  }
  return bytes;
}

// Every rank sees what every rank published, round after round, whoever is fast or slow.
void run_rounds(ShardExchange& exchange, int num_rounds) {
  for (int round = 0; round < num_rounds; ++round) {
    const std::vector<std::byte> mine = content(exchange.rank(), round);
    ASSERT_GE(exchange.own().size(), kCapacity);
    std::memcpy(exchange.own().data(), mine.data(), mine.size());
    exchange.publish(mine.size());
    exchange.complete();
    for (int rank = 0; rank < exchange.size(); ++rank) {
      const std::vector<std::byte> expected = content(rank, round);
      const std::span<const std::byte> part = exchange.part(rank);
      ASSERT_EQ(part.size(), expected.size()) << "rank " << rank << ", round " << round;
      ASSERT_EQ(std::memcmp(part.data(), expected.data(), expected.size()), 0);
    }
    if ((round + exchange.rank()) % 5 == 0) std::this_thread::yield();
  }
}

ExchangeWait wait_for(const Communicator& group, double stall_timeout_s) {
  ExchangeWait wait{.stall_timeout_s = stall_timeout_s, .names = {}, .poll = {}};
  for (int rank = 0; rank < group.size(); ++rank) {
    wait.names.push_back("rank " + std::to_string(rank));
  }
  return wait;
}

TEST(ShardExchange, ThreadsSeeEachOthersParts) {
  for (const int size : {1, 2, 3}) {
    auto ends = make_thread_exchange(size, kCapacity);
    std::vector<std::thread> threads;
    threads.reserve(ends.size());
    for (const auto& end : ends) threads.emplace_back([&end] { run_rounds(*end, 500); });
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(ShardExchange, RanksOfANodeSeeEachOthersParts) {
  const Communicator group = Communicator::duplicate(MPI_COMM_WORLD);
  run_rounds(*make_shared_exchange(group, kCapacity, wait_for(group, 30.0)), 300);
}

TEST(ShardExchange, MessagesCarryThePartsToo) {
  const Communicator group = Communicator::duplicate(MPI_COMM_WORLD);
  run_rounds(*make_message_exchange(group, kCapacity, wait_for(group, 30.0)), 300);
}

TEST(ShardExchange, ARankThatDoesNotComeIsNamed) {
  const Communicator group = Communicator::duplicate(MPI_COMM_WORLD);
  if (group.size() < 2) GTEST_SKIP() << "needs two ranks";
  const auto exchange = make_shared_exchange(group, kCapacity, wait_for(group, 0.05));
  if (group.rank() == 1) {
    group.barrier();
    return;
  }
  exchange->publish(1);
  try {
    exchange->complete();
    FAIL() << "rank 1 has not published";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
  }
  group.barrier();
}

TEST(ShardExchange, MoreThanTheCapacityIsRefused) {
  auto ends = make_thread_exchange(1, 10);
  EXPECT_THROW(ends[0]->publish(11), std::logic_error);
}

}  // namespace
}  // namespace headrace
