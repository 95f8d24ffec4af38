#include "runtime/dispatch/dispatcher.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <stdexcept>

#include "comm/loopback_channel.h"

namespace headrace {
namespace {

// Another replica, played by the test: takes what it is sent, says what the test lets it say.
class FakeReplica {
 public:
  explicit FakeReplica(std::size_t max_bytes = 4096)
      : work_(make_loopback_channel({.max_bytes = max_bytes, .num_buffers = 2})),
        reports_(make_loopback_channel({.max_bytes = std::size_t{1} << 20, .num_buffers = 8})) {}

  ReplicaLink link(const std::string& name) const {
    return {.work = work_.sender.get(), .reports = reports_.receiver.get(), .name = name};
  }

  // Everything that has arrived, orders and stops kept aside.
  std::vector<SequenceId> take() {
    std::vector<SequenceId> ids;
    while (const auto bytes = work_.receiver->try_receive()) {
      const WorkMessage message = decode_work(*bytes);
      work_.receiver->release();
      for (const NewSequence& sequence : message.sequences) ids.push_back(sequence.id);
      stops.insert(stops.end(), message.stops.begin(), message.stops.end());
      order = message.order;
    }
    return ids;
  }

  void report(ReportMessage message) const {
    std::vector<std::byte> bytes;
    encode(message, bytes);
    const auto buffer = reports_.sender->try_acquire();
    ASSERT_TRUE(buffer.has_value() && bytes.size() <= buffer->size());
    std::memcpy(buffer->data(), bytes.data(), bytes.size());
    reports_.sender->post(bytes.size());
  }

  // Tokens of one sequence, the last one its end if so.
  static std::vector<SequenceEvent> tokens_of(SequenceId id, int count, bool ends) {
    std::vector<SequenceEvent> events;
    for (int i = 0; i < count; ++i) {
      SequenceEvent event;
      event.id = id;
      event.has_token = true;
      event.token.token = i;
      if (ends && i + 1 == count) event.finish = FinishReason::kStop;
      events.push_back(event);
    }
    return events;
  }

  WorkOrder order = WorkOrder::kRun;
  std::vector<SequenceId> stops;

 private:
  LoopbackChannel work_;
  LoopbackChannel reports_;
};

std::vector<NewSequence> sequences(SequenceId first, int count, std::size_t length = 4) {
  std::vector<NewSequence> all;
  for (int i = 0; i < count; ++i) {
    NewSequence sequence;
    sequence.id = first + i;
    sequence.tokens.assign(length, 1);
    sequence.num_prompt_tokens = static_cast<int>(length);
    sequence.max_tokens = 8;
    all.push_back(sequence);
  }
  return all;
}

class DispatcherTest : public testing::Test {
 protected:
  void add(std::vector<NewSequence> work, const std::vector<SequenceId>& stops = {}) {
    dispatcher_.add(work, stops);
  }
  std::vector<SequenceId> take_own() {
    std::vector<NewSequence> own;
    std::vector<SequenceId> stops;
    dispatcher_.take_own(own, stops);
    own_stops_.insert(own_stops_.end(), stops.begin(), stops.end());
    std::vector<SequenceId> ids;
    ids.reserve(own.size());
    for (const NewSequence& sequence : own) ids.push_back(sequence.id);
    return ids;
  }
  std::vector<SequenceEvent> exchange() {
    std::vector<SequenceEvent> events;
    dispatcher_.exchange(events);
    return events;
  }

  FakeReplica first_;
  FakeReplica second_;
  Dispatcher dispatcher_{{first_.link("replica 1"), second_.link("replica 2")},
                         {.max_outstanding = 5, .stall_timeout_s = 0.0}};
  std::vector<SequenceId> own_stops_;
};

TEST_F(DispatcherTest, SpreadsWorkEvenlyAndHoldsBackWhatNobodyCanTake) {
  add(sequences(0, 6));
  exchange();
  EXPECT_EQ(take_own().size(), 2U);
  EXPECT_EQ(first_.take().size(), 2U);
  EXPECT_EQ(second_.take().size(), 2U);
  add(sequences(6, 20));
  exchange();
  EXPECT_EQ(take_own().size(), 3U);
  EXPECT_EQ(first_.take().size(), 3U);
  EXPECT_EQ(second_.take().size(), 3U);
}

TEST_F(DispatcherTest, WhoeverFinishesGetsTheNextOne) {
  add(sequences(0, 20));
  exchange();
  take_own();
  const std::vector<SequenceId> had = second_.take();
  first_.take();
  second_.report(
      {.done = WorkOrder::kRun, .view = {}, .events = FakeReplica::tokens_of(had[0], 3, true)});
  const std::vector<SequenceEvent> events = exchange();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2].finish, FinishReason::kStop);
  EXPECT_EQ(second_.take(), (std::vector<SequenceId>{15}));
  EXPECT_TRUE(first_.take().empty());
  EXPECT_TRUE(take_own().empty());
}

TEST_F(DispatcherTest, NearTheEndTheFasterReplicaGetsMore) {
  add(sequences(0, 15));
  exchange();
  std::map<int, std::vector<SequenceId>> had{
      {0, take_own()}, {1, first_.take()}, {2, second_.take()}};
  // Replica 1 has been four times as fast; all become idle.
  const auto run = [](const std::vector<SequenceId>& ids, int tokens) {
    std::vector<SequenceEvent> all;
    for (const SequenceId id : ids) {
      for (SequenceEvent& event : FakeReplica::tokens_of(id, tokens, true)) all.push_back(event);
    }
    return all;
  };
  dispatcher_.note_own(run(had[0], 250));
  first_.report({.done = WorkOrder::kRun, .view = {}, .events = run(had[1], 500)});
  second_.report({.done = WorkOrder::kRun, .view = {}, .events = run(had[2], 250)});
  exchange();
  first_.report(
      {.done = WorkOrder::kRun, .view = {}, .events = FakeReplica::tokens_of(99, 500, false)});
  exchange();
  add(sequences(100, 6));
  exchange();
  EXPECT_EQ(first_.take().size(), 4U);
  EXPECT_EQ(second_.take().size(), 1U);
  EXPECT_EQ(take_own().size(), 1U);
}

// Replica 1 is a tenth as fast as the others, which are done; nothing is left to be given out.
TEST_F(DispatcherTest, ASlowReplicaIsTakenFromAtTheEnd) {
  add(sequences(0, 15));
  exchange();
  const std::vector<SequenceId> own = take_own();
  const std::vector<SequenceId> slow = first_.take();
  const std::vector<SequenceId> fast = second_.take();
  EXPECT_TRUE(dispatcher_.recall().empty());  // nobody's speed is known yet
  std::vector<SequenceEvent> events;
  for (const SequenceId id : own) {
    for (SequenceEvent& event : FakeReplica::tokens_of(id, 2000, true)) events.push_back(event);
  }
  dispatcher_.note_own(events);
  events.clear();
  for (const SequenceId id : slow) {
    for (SequenceEvent& event : FakeReplica::tokens_of(id, 200, false)) events.push_back(event);
  }
  first_.report({.done = WorkOrder::kRun, .view = {}, .events = events});
  second_.report({.done = WorkOrder::kRun,
                  .view = {},
                  .events = FakeReplica::tokens_of(fast[0], 9000, false)});
  exchange();
  const std::vector<SequenceId> recalled = dispatcher_.recall();
  EXPECT_EQ(recalled, (std::vector<SequenceId>{slow[4], slow[3], slow[2], slow[1], slow[0]}));
  EXPECT_TRUE(dispatcher_.recall().empty());
  exchange();
  first_.take();
  EXPECT_EQ(first_.stops, recalled);
  add(sequences(50, 5));
  exchange();
  EXPECT_TRUE(first_.take().empty());
  EXPECT_EQ(take_own().size() + second_.take().size(), 5U);
}

TEST_F(DispatcherTest, EquallyFastReplicasKeepWhatTheyHave) {
  add(sequences(0, 15));
  exchange();
  const std::vector<SequenceId> own = take_own();
  std::vector<SequenceEvent> events;
  for (const SequenceId id : own) {
    for (SequenceEvent& event : FakeReplica::tokens_of(id, 500, true)) events.push_back(event);
  }
  dispatcher_.note_own(events);
  for (FakeReplica* replica : {&first_, &second_}) {
    replica->report({.done = WorkOrder::kRun,
                     .view = {},
                     .events = FakeReplica::tokens_of(replica->take()[0], 2400, false)});
  }
  exchange();
  EXPECT_TRUE(dispatcher_.recall().empty());
}

TEST_F(DispatcherTest, StopsGoToTheReplicaThatHasTheSequence) {
  add(sequences(0, 3));
  exchange();
  const SequenceId own = take_own().at(0);
  const SequenceId other = first_.take().at(0);
  add({}, {own, other, 12345});
  exchange();
  take_own();
  first_.take();
  second_.take();
  EXPECT_EQ(own_stops_, std::vector<SequenceId>{own});
  EXPECT_EQ(first_.stops, std::vector<SequenceId>{other});
  EXPECT_TRUE(second_.stops.empty());
}

TEST_F(DispatcherTest, AnOrderIsDoneWhenAllOthersSaySo) {
  EXPECT_TRUE(dispatcher_.all_done(WorkOrder::kRun));
  dispatcher_.give(WorkOrder::kDrain);
  exchange();
  first_.take();
  EXPECT_EQ(first_.order, WorkOrder::kDrain);
  first_.report({.done = WorkOrder::kDrain, .view = {}, .events = {}});
  exchange();
  EXPECT_FALSE(dispatcher_.all_done(WorkOrder::kDrain));
  second_.report({.done = WorkOrder::kDrain, .view = {}, .events = {}});
  exchange();
  EXPECT_TRUE(dispatcher_.all_done(WorkOrder::kDrain));
}

TEST(Dispatcher, WhatDoesNotFitAMessageGoesWithTheNext) {
  FakeReplica replica(2000);
  Dispatcher dispatcher({replica.link("replica 1")},
                        {.max_outstanding = 100, .stall_timeout_s = 0.0});
  std::vector<NewSequence> work = sequences(0, 40, 100);
  dispatcher.add(work, {});
  std::set<SequenceId> seen;
  std::vector<SequenceEvent> events;
  for (int turn = 0; turn < 20; ++turn) {
    dispatcher.exchange(events);
    for (const SequenceId id : replica.take()) EXPECT_TRUE(seen.insert(id).second);
  }
  EXPECT_EQ(seen.size(), 20U);
}

TEST(Dispatcher, AloneItKeepsEverythingForItself) {
  Dispatcher dispatcher({}, {.max_outstanding = 2, .stall_timeout_s = 0.0});
  std::vector<NewSequence> work = sequences(0, 50);
  dispatcher.add(work, {});
  std::vector<NewSequence> own;
  std::vector<SequenceId> stops;
  dispatcher.take_own(own, stops);
  EXPECT_EQ(own.size(), 50U);
  EXPECT_TRUE(dispatcher.all_done(WorkOrder::kFinish));
}

TEST(Dispatcher, ASilentReplicaIsNamed) {
  FakeReplica replica;
  Dispatcher dispatcher({replica.link("rank 4 on host b (stage 0, replica 1)")},
                        {.max_outstanding = 2, .stall_timeout_s = 0.02});
  std::vector<SequenceEvent> events;
  try {
    for (;;) {
      dispatcher.exchange(events);
      replica.take();
    }
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "waited 0 s (--stall-timeout) to hear from rank 4 on host b (stage 0, replica 1)");
  }
}

}  // namespace
}  // namespace headrace
