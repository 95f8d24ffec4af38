// How hidden states find their places, with scripted ends of a transport and host memory.
#include "runtime/pipeline/hidden_states.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace headrace {
namespace {

constexpr int kRows = 3;
constexpr int kCols = 4;
constexpr std::size_t kBytes = std::size_t{kRows} * kCols * sizeof(float);

using Floats = std::vector<float>;

std::span<std::byte> bytes_of(Floats& values) {
  return std::as_writable_bytes(std::span(values));
}

Floats filled(float value) {
  return Floats(std::size_t{kRows} * kCols, value);
}

// Both ends of a link write down what is asked of them, in one log.
struct Sender final : DeviceSender {
  explicit Sender(std::vector<std::string>& to) : log(to) {}
  std::byte* try_acquire() override { return num_full-- > 0 ? nullptr : bytes_of(buffer).data(); }
  void post(std::size_t bytes) override { log.push_back("post " + std::to_string(bytes)); }
  bool drained() override { return num_full <= 0; }
  void poll() override {}

  std::vector<std::string>& log;
  Floats buffer = filled(0.0F);
  int num_full = 0;  // so often is there no buffer
};

struct Receiver final : DeviceReceiver {
  explicit Receiver(std::vector<std::string>& to) : log(to) {}
  std::byte* try_receive(std::size_t bytes) override {
    if (num_late-- > 0) return nullptr;
    log.push_back("receive " + std::to_string(bytes));
    return bytes_of(message).data();
  }
  void release() override { log.push_back("release"); }
  void poll() override {}

  std::vector<std::string>& log;
  Floats message = filled(7.0F);
  int num_late = 0;  // so often has it not come
};

class HiddenStatesTest : public ::testing::Test {
 protected:
  HiddenStates states(bool passed_on, HiddenLinks links = {}) {
    links.poll = [this] { ++num_polls_; };
    return {*arena_,
            {.max_rows = kRows, .hidden_size = kCols, .passed_on = passed_on},
            std::move(links)};
  }

  std::unique_ptr<DeviceArena> arena_ = make_host_arena();
  std::vector<std::string> log_;
  Sender sender_{log_};
  Receiver receiver_{log_};
  int num_polls_ = 0;
};

TEST_F(HiddenStatesTest, OnTheHostLayersRunInTheMessageThatWillBeSent) {
  Floats received = filled(1.0F);
  Floats room = filled(0.0F);
  HiddenStates hidden = states(/*passed_on=*/true);
  const TensorView view = hidden.take_in(kRows, bytes_of(received), bytes_of(room));
  EXPECT_EQ(view.data, bytes_of(room).data());
  EXPECT_EQ(room, filled(1.0F));
  hidden.give_out(view, bytes_of(room));
  EXPECT_TRUE(hidden.has_room());
  EXPECT_TRUE(hidden.drained());
}

TEST_F(HiddenStatesTest, FromLinkToLinkTheMessageIsFreeBeforeTheLayersRun) {
  HiddenStates hidden = states(true, {.from = &receiver_, .to = &sender_, .poll = {}});
  const TensorView view = hidden.take_in(kRows, {}, {});
  EXPECT_EQ(view.data, bytes_of(sender_.buffer).data());
  EXPECT_EQ(sender_.buffer, filled(7.0F));
  const std::string size = std::to_string(kBytes);
  EXPECT_EQ(log_, (std::vector<std::string>{"receive " + size, "release"}));
  hidden.give_out(view, {});
  EXPECT_EQ(log_.back(), "post " + size);
}

TEST_F(HiddenStatesTest, OnTheLastStageTheMessageIsHeldUntilTheStepIsDone) {
  HiddenStates hidden = states(false, {.from = &receiver_, .to = nullptr, .poll = {}});
  const TensorView view = hidden.take_in(kRows, {}, {});
  EXPECT_EQ(view.data, bytes_of(receiver_.message).data());
  EXPECT_EQ(log_.size(), 1U);
  hidden.give_out(view, {});
  EXPECT_EQ(log_.back(), "release");
}

TEST_F(HiddenStatesTest, LinksAndMessagesMeetInOneStage) {
  Floats received = filled(3.0F);
  HiddenStates into_link = states(true, {.from = nullptr, .to = &sender_, .poll = {}});
  into_link.give_out(into_link.take_in(kRows, bytes_of(received), {}), {});
  EXPECT_EQ(sender_.buffer, filled(3.0F));
  EXPECT_EQ(log_, (std::vector<std::string>{"post " + std::to_string(kBytes)}));

  Floats room = filled(0.0F);
  HiddenStates out_of_link = states(true, {.from = &receiver_, .to = nullptr, .poll = {}});
  const TensorView view = out_of_link.take_in(kRows, {}, bytes_of(room));
  out_of_link.give_out(view, bytes_of(room));
  EXPECT_EQ(room, filled(7.0F));
  EXPECT_EQ(log_.back(), "release");
}

TEST_F(HiddenStatesTest, OthersAdvanceWhileALinkIsWaitedFor) {
  receiver_.num_late = 3;
  sender_.num_full = 2;
  HiddenStates hidden = states(true, {.from = &receiver_, .to = &sender_, .poll = {}});
  hidden.take_in(kRows, {}, {});
  EXPECT_EQ(num_polls_, 5);
}

TEST_F(HiddenStatesTest, AStepWithoutRowsTouchesNoLink) {
  HiddenStates hidden = states(true, {.from = &receiver_, .to = &sender_, .poll = {}});
  hidden.give_out(hidden.take_in(0, {}, {}), {});
  EXPECT_TRUE(log_.empty());
}

TEST_F(HiddenStatesTest, ThereIsRoomWhereTheLinkHasABuffer) {
  sender_.num_full = 2;
  HiddenStates hidden = states(true, {.from = nullptr, .to = &sender_, .poll = {}});
  EXPECT_FALSE(hidden.drained());
  EXPECT_FALSE(hidden.has_room());
  EXPECT_FALSE(hidden.has_room());
  EXPECT_TRUE(hidden.has_room());
  EXPECT_TRUE(hidden.drained());
}

TEST(HiddenStatesBytes, AreNeededWhereNeitherMessageNorLinkHasThem) {
  const auto host = make_host_arena();
  HiddenShape shape{.max_rows = kRows, .hidden_size = kCols, .passed_on = false};
  EXPECT_EQ(hidden_states_bytes(*host, shape), kBytes);
  shape.has_device_link = true;
  EXPECT_EQ(hidden_states_bytes(*host, shape), 0U);
  EXPECT_EQ(hidden_states_bytes(*host, {kRows, kCols, /*passed_on=*/true}), 0U);
}

}  // namespace
}  // namespace headrace
