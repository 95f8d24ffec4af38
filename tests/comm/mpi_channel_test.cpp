#include "comm/mpi_channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "comm/loopback_channel.h"

namespace headrace {
namespace {

// Message i of a seeded series: its size, and bytes that tell it from any other.
std::vector<std::byte> message(int i, std::size_t max_bytes) {
  std::mt19937 random(static_cast<unsigned>(i));
  std::vector<std::byte> bytes(4 + random() % (max_bytes - 4));
  std::memcpy(bytes.data(), &i, 4);
  for (std::size_t k = 4; k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(random());
  return bytes;
}

void send_all(MessageSender& sender, int count, std::size_t max_bytes) {
  for (int i = 0; i < count; ++i) {
    auto buffer = sender.try_acquire();
    while (!buffer) buffer = sender.try_acquire();
    const std::vector<std::byte> bytes = message(i, max_bytes);
    std::memcpy(buffer->data(), bytes.data(), bytes.size());
    sender.post(bytes.size());
  }
  while (!sender.drained()) sender.poll();
}

void expect_all(MessageReceiver& receiver, int count, std::size_t max_bytes) {
  for (int i = 0; i < count; ++i) {
    auto bytes = receiver.try_receive();
    while (!bytes) bytes = receiver.try_receive();
    const std::vector<std::byte> expected = message(i, max_bytes);
    ASSERT_EQ(bytes->size(), expected.size()) << i;
    ASSERT_EQ(std::memcmp(bytes->data(), expected.data(), expected.size()), 0) << i;
    receiver.release();
  }
}

TEST(MpiChannel, KeepsOrderAndSizesFromEachRankToTheNext) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  if (world.size() == 1) GTEST_SKIP() << "needs two ranks";
  constexpr ChannelShape kShape{.max_bytes = 200000, .num_buffers = 3};
  constexpr int kCount = 40;
  std::unique_ptr<MessageReceiver> from;
  std::unique_ptr<MessageSender> to;
  if (world.rank() > 0) from = make_mpi_receiver(world, world.rank() - 1, kShape);
  if (world.rank() + 1 < world.size()) to = make_mpi_sender(world, world.rank() + 1, kShape);
  if (from) expect_all(*from, kCount, kShape.max_bytes);
  if (to) send_all(*to, kCount, kShape.max_bytes);
}

TEST(MpiChannel, AReceiverMayEndWithReceivesStillPosted) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  if (world.size() == 1) GTEST_SKIP() << "needs two ranks";
  if (world.rank() == 1) make_mpi_receiver(world, 0, {.max_bytes = 64, .num_buffers = 4});
  world.barrier();
}

TEST(MpiChannel, MessagesThatMpiCannotCountAreRefused) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  EXPECT_THROW(make_mpi_sender(world, 0, {.max_bytes = std::size_t{3} << 30, .num_buffers = 1}),
               std::invalid_argument);
}

TEST(LoopbackChannel, HoldsAsManyMessagesAsItHasBuffers) {
  LoopbackChannel channel = make_loopback_channel({.max_bytes = 16, .num_buffers = 2});
  EXPECT_FALSE(channel.receiver->try_receive().has_value());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(channel.sender->try_acquire().has_value());
    channel.sender->post(4);
  }
  EXPECT_FALSE(channel.sender->try_acquire().has_value());
  EXPECT_EQ(channel.receiver->try_receive()->size(), 4U);
  channel.receiver->release();
  EXPECT_TRUE(channel.sender->try_acquire().has_value());
}

}  // namespace
}  // namespace headrace
