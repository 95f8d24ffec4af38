#include "runtime/dispatch/work_message.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace headrace {
namespace {

NewSequence sequence() {
  NewSequence s;
  s.id = 77;
  s.tokens = {5, 6, 7, 8};
  s.num_prompt_tokens = 3;
  s.max_tokens = 40;
  s.stop_token_ids = {2, 9};
  s.priority = -3;
  s.params.temperature = 0.5F;
  s.params.logit_bias = {{4, 1.5F}, {6, -2.0F}};
  s.params.key = 0x123456789ABCDEFULL;
  return s;
}

SequenceEvent event() {
  SequenceEvent e;
  e.id = 78;
  e.prompt_scores = {{.token = 3, .logprob = -1.5F, .rank = 2, .top = {{4, -0.5F}, {3, -1.5F}}}};
  e.has_token = true;
  e.token = {.token = 9, .logprob = -0.25F, .rank = 0, .top = {}};
  e.finish = FinishReason::kLength;
  return e;
}

TEST(WorkMessage, ComesBackAsItWas) {
  WorkMessage message;
  message.order = WorkOrder::kDrain;
  message.stops = {1, 1'000'000'000'000};
  message.sequences = {sequence(), sequence()};
  std::vector<std::byte> bytes;
  encode(message, bytes);
  EXPECT_EQ(bytes.size(), work_header_bytes(2) + 2 * encoded_bytes(sequence()));
  const WorkMessage back = decode_work(bytes);
  EXPECT_EQ(back.order, WorkOrder::kDrain);
  EXPECT_EQ(back.stops, message.stops);
  ASSERT_EQ(back.sequences.size(), 2U);
  const NewSequence& s = back.sequences[1];
  EXPECT_EQ(s.id, 77);
  EXPECT_EQ(s.tokens, sequence().tokens);
  EXPECT_EQ(s.num_prompt_tokens, 3);
  EXPECT_EQ(s.max_tokens, 40);
  EXPECT_EQ(s.stop_token_ids, sequence().stop_token_ids);
  EXPECT_EQ(s.priority, -3);
  EXPECT_EQ(s.params.temperature, 0.5F);
  EXPECT_EQ(s.params.logit_bias, sequence().params.logit_bias);
  EXPECT_EQ(s.params.key, sequence().params.key);
}

TEST(ReportMessage, ComesBackAsItWas) {
  ReportMessage message;
  message.done = WorkOrder::kFinish;
  message.view.scheduler.num_running = 4;
  message.view.scheduler.num_recomputed_tokens = 1LL << 40;
  message.view.scheduler.num_swapped_sequences = 1LL << 41;
  message.view.scheduler.num_swapped_blocks = 1LL << 42;
  message.view.scheduler.num_free_swap_blocks = 43;
  message.view.head.rows = 99;
  message.view.times = {{.busy_ns = 1, .wait_ns = 2, .transfer_ns = 3},
                        {.busy_ns = 4, .wait_ns = 5, .transfer_ns = 6}};
  message.events = {event(), event()};
  std::vector<std::byte> bytes;
  encode(message, bytes);
  EXPECT_EQ(bytes.size(), report_header_bytes(2) + 2 * encoded_bytes(event()));
  const ReportMessage back = decode_report_message(bytes);
  EXPECT_EQ(back.done, WorkOrder::kFinish);
  EXPECT_EQ(back.view.scheduler.num_running, 4);
  EXPECT_EQ(back.view.scheduler.num_recomputed_tokens, 1LL << 40);
  EXPECT_EQ(back.view.scheduler.num_swapped_sequences, 1LL << 41);
  EXPECT_EQ(back.view.scheduler.num_swapped_blocks, 1LL << 42);
  EXPECT_EQ(back.view.scheduler.num_free_swap_blocks, 43);
  EXPECT_EQ(back.view.head.rows, 99);
  ASSERT_EQ(back.view.times.size(), 2U);
  EXPECT_EQ(back.view.times[1].wait_ns, 5);
  ASSERT_EQ(back.events.size(), 2U);
  const SequenceEvent& e = back.events[1];
  EXPECT_EQ(e.id, 78);
  EXPECT_EQ(e.finish, FinishReason::kLength);
  EXPECT_TRUE(e.has_token);
  EXPECT_EQ(e.token.token, 9);
  ASSERT_EQ(e.prompt_scores.size(), 1U);
  EXPECT_EQ(e.prompt_scores[0].top, event().prompt_scores[0].top);
}

TEST(WorkMessage, EveryTruncationIsRefused) {
  WorkMessage work;
  work.stops = {3};
  work.sequences = {sequence()};
  ReportMessage report;
  report.view.times.resize(1);
  report.events = {event()};
  std::vector<std::byte> work_bytes;
  std::vector<std::byte> report_bytes;
  encode(work, work_bytes);
  encode(report, report_bytes);
  for (std::size_t size = 0; size < work_bytes.size(); ++size) {
    EXPECT_THROW(decode_work(std::span(work_bytes).first(size)), std::runtime_error) << size;
  }
  for (std::size_t size = 0; size < report_bytes.size(); ++size) {
    EXPECT_THROW(decode_report_message(std::span(report_bytes).first(size)), std::runtime_error)
        << size;
  }
}

}  // namespace
}  // namespace headrace
