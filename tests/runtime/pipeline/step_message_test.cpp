#include "runtime/pipeline/step_message.h"

#include <gtest/gtest.h>

#include <cstring>

namespace headrace {
namespace {

constexpr int kHidden = 5;

StepPlan plan_of(int rows) {
  StepPlan plan;
  plan.id = 42;
  plan.entries.push_back({.slot = 3, .first_position = 7, .num_rows = rows, .sample = true});
  plan.tokens.assign(static_cast<std::size_t>(rows), 9);
  return plan;
}

std::vector<std::byte> message_of(int rows) {
  std::vector<std::byte> plan;
  encode(plan_of(rows), plan);
  const std::vector<StageTimes> times{{1, 2, 3}, {4, 5, 6}};
  std::vector<std::byte> buffer(max_step_message_bytes(2, plan.size(), rows, kHidden));
  const std::span<std::byte> hidden = write_step_message(buffer, times, plan, rows, kHidden);
  for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<std::byte>(i);
  buffer.resize(step_message_bytes(buffer, hidden));
  return buffer;
}

TEST(StepMessage, BringsPlanTimesAndHiddenStates) {
  const std::vector<std::byte> bytes = message_of(4);
  const StepMessage message = read_step_message(bytes, kHidden);
  EXPECT_EQ(message.plan.id, 42);
  EXPECT_EQ(message.plan.num_rows(), 4);
  ASSERT_EQ(message.times.size(), 2U);
  EXPECT_EQ(message.times[1].wait_ns, 5);
  ASSERT_EQ(message.hidden.size(), 4U * kHidden * sizeof(float));
  EXPECT_EQ(message.hidden[17], std::byte{17});
}

TEST(StepMessage, AStageReplacesItsOwnTimesOnly) {
  std::vector<std::byte> bytes = message_of(1);
  set_stage_times(bytes, 1, {70, 80, 90});
  const StepMessage message = read_step_message(bytes, kHidden);
  EXPECT_EQ(message.times[0].busy_ns, 1);
  EXPECT_EQ(message.times[1].transfer_ns, 90);
}

TEST(StepMessage, AMessageOfAnotherSizeIsRefused) {
  std::vector<std::byte> bytes = message_of(3);
  bytes.pop_back();
  EXPECT_THROW(read_step_message(bytes, kHidden), std::runtime_error);
  EXPECT_THROW(read_step_message(message_of(3), kHidden + 1), std::runtime_error);
  EXPECT_THROW(read_step_message({}, kHidden), std::runtime_error);
}

TEST(StepMessage, APlanThatDoesNotFitIsABrokenInvariant) {
  std::vector<std::byte> plan(100);
  std::vector<std::byte> buffer(64);
  EXPECT_THROW(write_step_message(buffer, {}, plan, 1, kHidden), std::logic_error);
}

TEST(ResultMessage, BringsTimesAndResult) {
  StepResult result;
  result.id = 7;
  StepResult::Entry entry;
  entry.slot = 2;
  entry.sampled = true;
  entry.token.token = 11;
  entry.token.logprob = -0.5F;
  result.entries.push_back(entry);
  std::vector<std::byte> bytes;
  const std::vector<StageTimes> times{{1, 1, 1}, {2, 2, 2}, {3, 3, 3}};
  write_result_message(times, result, bytes);
  std::vector<StageTimes> read;
  const StepResult back = read_result_message(bytes, read);
  EXPECT_EQ(back.id, 7);
  EXPECT_EQ(back.entries.at(0).token.token, 11);
  EXPECT_EQ(read.at(2).busy_ns, 3);
  EXPECT_THROW(read_result_message(std::span(bytes).first(12), read), std::runtime_error);
}

}  // namespace
}  // namespace headrace
