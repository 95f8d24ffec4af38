// The two exchanges that a model's ranks may have: in host memory, and over a transport between
// GPUs, here a scripted one.
#include "comm/tensor_exchange.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "comm/shard_exchange.h"
#include "comm/transport_exchange.h"

namespace headrace {
namespace {

using Sizes = std::vector<std::size_t>;

TEST(TensorExchange, ThreadsGatherPartsOfDifferentSizes) {
  const Sizes bytes{3, 0, 5};
  auto ends = make_thread_exchange(3, 8);
  std::vector<std::thread> ranks;
  for (const auto& end : ends) {
    ranks.emplace_back([&bytes, &end] {
      TensorExchange& exchange = *end;
      for (int round = 0; round < 20; ++round) {
        std::memset(exchange.own().data(), exchange.rank() + round, exchange.own().size());
        exchange.gather(bytes);
        for (int peer = 0; peer < exchange.size(); ++peer) {
          ASSERT_EQ(exchange.part(peer).size(), bytes[static_cast<std::size_t>(peer)]);
          for (const std::byte byte : exchange.part(peer)) {
            ASSERT_EQ(static_cast<int>(byte), peer + round);
          }
        }
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(TensorExchange, ARankThatGaveAnotherNumberOfBytesIsNamed) {
  auto ends = make_thread_exchange(2, 8);
  ends[1]->publish(4);
  try {
    ends[0]->gather(Sizes{2, 3});
    FAIL() << "rank 1 gave 4 bytes";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 of a stage gave 4 bytes, 3"),
              std::string::npos)
        << error.what();
  }
}

TEST(TensorExchange, OnTheHostNobodyAddsButTheReaders) {
  auto ends = make_thread_exchange(1, 8);
  std::array<float, 2> values{};
  EXPECT_FALSE(ends[0]->adds());
  EXPECT_THROW(ends[0]->sum(values), std::logic_error);
}

// Rank 1 of 2 whose peer gives what this rank gives; counts what it is asked.
class EchoExchange final : public DeviceExchange {
 public:
  int rank() const override { return 1; }
  int size() const override { return 2; }
  std::byte* own() override { return memory_.data(); }
  void gather(std::span<const std::size_t> bytes) override {
    gathered.emplace_back(bytes.begin(), bytes.end());
  }
  const std::byte* part(int /*rank*/) const override { return memory_.data(); }
  void sum(float* values, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) values[i] *= 2.0F;
    ++num_sums;
  }
  void poll() override {}

  std::vector<Sizes> gathered;
  int num_sums = 0;

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(32);
};

TEST(TransportExchange, PartsAreAsLargeAsAllRanksKnow) {
  EchoExchange transport;
  const auto exchange = make_transport_exchange(transport, {.bytes = 32});
  EXPECT_EQ(exchange->rank(), 1);
  EXPECT_EQ(exchange->size(), 2);
  EXPECT_EQ(exchange->own().size(), 32U);
  exchange->gather(Sizes{8, 20});
  EXPECT_EQ(exchange->part(0).size(), 8U);
  EXPECT_EQ(exchange->part(1).size(), 20U);
  EXPECT_EQ(exchange->part(1).data(), exchange->own().data());
  EXPECT_EQ(transport.gathered, (std::vector<Sizes>{{8, 20}}));
}

TEST(TransportExchange, NothingIsExchangedForAStepWithoutRows) {
  EchoExchange transport;
  const auto exchange = make_transport_exchange(transport, {.bytes = 32, .adds = true});
  exchange->gather(Sizes{4, 4});
  exchange->gather(Sizes{0, 0});
  exchange->sum({});
  EXPECT_EQ(transport.gathered.size(), 1U);
  EXPECT_EQ(transport.num_sums, 0);
  EXPECT_TRUE(exchange->part(0).empty());
  exchange->gather(Sizes{0, 4});
  EXPECT_EQ(transport.gathered.size(), 2U);
}

TEST(TransportExchange, SumsAreTheTransportsWhereTheyNeedNoOrder) {
  EchoExchange transport;
  SpanRecorder recorder(8);
  const auto exchange =
      make_transport_exchange(transport, {.bytes = 32, .adds = true, .recorder = &recorder});
  std::array<float, 3> values{1.0F, 2.0F, 3.0F};
  ASSERT_TRUE(exchange->adds());
  exchange->sum(values);
  EXPECT_EQ(values, (std::array<float, 3>{2.0F, 4.0F, 6.0F}));
  EXPECT_FALSE(make_transport_exchange(transport, {.bytes = 32})->adds());
}

}  // namespace
}  // namespace headrace
