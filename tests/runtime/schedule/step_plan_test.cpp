#include "runtime/schedule/step_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

namespace headrace {
namespace {

std::vector<std::byte> bytes_of(const StepPlan& plan) {
  std::vector<std::byte> out;
  encode(plan, out);
  return out;
}

std::vector<std::byte> bytes_of(const StepResult& result) {
  std::vector<std::byte> out;
  encode(result, out);
  return out;
}

Admission full_admission() {
  Admission admission;
  admission.slot = 3;
  admission.num_prompt_tokens = 17;
  admission.max_length = 42;
  SamplingParams& params = admission.params;
  params.temperature = 0.7F;
  params.top_p = 0.9F;
  params.top_k = 40;
  params.min_p = 0.05F;
  params.presence_penalty = -1.5F;
  params.frequency_penalty = 0.25F;
  params.repetition_penalty = 1.1F;
  params.logit_bias = {{2, -100.0F}, {9, 3.5F}};
  params.min_tokens = 4;
  params.banned_before_min = {0, 2, 11};
  params.key = 0x0123456789ABCDEFULL;
  params.stream = 0xFEDCBA9876543210ULL;
  params.choice = 5;
  params.num_logprobs = 3;
  params.num_prompt_logprobs = 0;
  return admission;
}

StepPlan full_plan() {
  StepPlan plan;
  plan.id = 0x1122334455LL;
  plan.last = true;
  plan.saves = {{.block = 21, .swap_block = 4}, {.block = 12, .swap_block = 5}};
  plan.released = {7, 3};
  plan.admitted = {full_admission()};
  StepEntry decode;
  decode.slot = 1;
  decode.first_position = 31;
  decode.num_rows = 1;
  decode.sample = true;
  StepEntry chunk;
  chunk.slot = 3;
  chunk.num_rows = 3;
  chunk.score = true;
  chunk.num_new_blocks = {1, 2};
  plan.entries = {decode, chunk};
  plan.restores = {{.block = 6, .swap_block = 9}};
  plan.num_kv_groups = 2;
  plan.new_blocks = {12, 5, 6};
  plan.tokens = {100, 200, 300, 400};
  plan.following = {-1};
  return plan;
}

StepResult full_result() {
  StepResult result;
  result.id = 42;
  StepResult::Entry scored;
  scored.slot = 2;
  scored.first_position = 16;
  scored.scored = {{5, -0.25F, 1, {{5, -0.25F}, {8, -2.0F}}}, {6, -3.0F, 9, {}}};
  StepResult::Entry sampled;
  sampled.slot = 0;
  sampled.sampled = true;
  sampled.token = {77, -std::numeric_limits<float>::infinity(), 0, {}};
  result.entries = {scored, sampled};
  return result;
}

TEST(StepPlan, SurvivesItsBytes) {
  const StepPlan plan = full_plan();
  const std::vector<std::byte> bytes = bytes_of(plan);
  EXPECT_EQ(bytes.size(), encoded_bytes(plan));
  const StepPlan again = decode_step_plan(bytes);
  EXPECT_EQ(again.id, plan.id);
  EXPECT_EQ(again.last, plan.last);
  EXPECT_EQ(again.saves, plan.saves);
  EXPECT_EQ(again.restores, plan.restores);
  EXPECT_EQ(again.released, plan.released);
  EXPECT_EQ(again.new_blocks, plan.new_blocks);
  EXPECT_EQ(again.tokens, plan.tokens);
  EXPECT_EQ(again.following, plan.following);
  ASSERT_EQ(again.entries.size(), 2U);
  EXPECT_EQ(again.entries[0].first_position, 31);
  EXPECT_TRUE(again.entries[0].sample);
  EXPECT_FALSE(again.entries[0].score);
  EXPECT_TRUE(again.entries[1].score);
  EXPECT_EQ(again.num_kv_groups, 2);
  EXPECT_EQ(again.entries[1].num_new_blocks, plan.entries[1].num_new_blocks);
  ASSERT_EQ(again.admitted.size(), 1U);
  EXPECT_EQ(again.admitted[0].num_prompt_tokens, 17);
  EXPECT_EQ(again.admitted[0].max_length, 42);
  const SamplingParams& params = again.admitted[0].params;
  const SamplingParams expected = full_admission().params;
  EXPECT_EQ(params.temperature, expected.temperature);
  EXPECT_EQ(params.top_p, expected.top_p);
  EXPECT_EQ(params.top_k, expected.top_k);
  EXPECT_EQ(params.min_p, expected.min_p);
  EXPECT_EQ(params.presence_penalty, expected.presence_penalty);
  EXPECT_EQ(params.frequency_penalty, expected.frequency_penalty);
  EXPECT_EQ(params.repetition_penalty, expected.repetition_penalty);
  EXPECT_EQ(params.logit_bias, expected.logit_bias);
  EXPECT_EQ(params.min_tokens, expected.min_tokens);
  EXPECT_EQ(params.banned_before_min, expected.banned_before_min);
  EXPECT_EQ(params.key, expected.key);
  EXPECT_EQ(params.stream, expected.stream);
  EXPECT_EQ(params.choice, expected.choice);
  EXPECT_EQ(params.num_logprobs, expected.num_logprobs);
  EXPECT_EQ(params.num_prompt_logprobs, expected.num_prompt_logprobs);
  EXPECT_EQ(bytes_of(again), bytes);
}

TEST(StepPlan, LiesInBytesAsThePageSays) {
  const std::vector<std::byte> bytes = bytes_of(full_plan());
  const auto u32 = [&](std::size_t offset) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
  };
  EXPECT_EQ(std::memcmp(bytes.data(), "HRSP\x04\x00\x01\x00", 8), 0);
  EXPECT_EQ(u32(8), bytes.size());
  EXPECT_EQ(u32(12), 2U);
  EXPECT_EQ(u32(16), 0x22334455U);
  EXPECT_EQ(u32(24), 1U);  // admitted
  EXPECT_EQ(u32(28), 2U);  // entries
  EXPECT_EQ(u32(32), 3U);  // new blocks
  EXPECT_EQ(u32(36), 4U);  // tokens
  EXPECT_EQ(u32(40), 1U);  // following
  EXPECT_EQ(u32(44), 2U);  // KV groups
  EXPECT_EQ(u32(48), 2U);  // saves
  EXPECT_EQ(u32(52), 1U);  // restores
  EXPECT_EQ(u32(56), 21U);
  EXPECT_EQ(u32(60), 4U);
  constexpr std::size_t kAdmission = 56 + 2 * 8 + 2 * 4;
  EXPECT_EQ(u32(kAdmission + 4), 17U);
  EXPECT_EQ(u32(kAdmission + 40), 0x89ABCDEFU);
  EXPECT_EQ(u32(kAdmission + 68), 2U);
  EXPECT_EQ(u32(kAdmission + 72), 3U);
  EXPECT_EQ(encoded_bytes(full_admission()), 80U + 2 * 8 + 3 * 4);
  const std::size_t restores = kAdmission + 80 + 2 * 8 + 3 * 4;
  EXPECT_EQ(u32(restores), 6U);
  EXPECT_EQ(u32(restores + 4), 9U);
  const std::size_t entries = restores + 8;
  EXPECT_EQ(u32(entries + 4), 31U);
  EXPECT_EQ(u32(entries + 12), 1U);
  EXPECT_EQ(u32(entries + 24 + 12), 2U);
  EXPECT_EQ(u32(entries + 24 + 20), 2U);
  EXPECT_EQ(u32(entries + 48), 12U);
  EXPECT_EQ(u32(entries + 60), 100U);
  EXPECT_EQ(bytes.size(), entries + 48 + 12 + 16 + 4);
}

TEST(StepResult, SurvivesItsBytes) {
  const StepResult result = full_result();
  const std::vector<std::byte> bytes = bytes_of(result);
  EXPECT_EQ(bytes.size(), 24U + (16 + 16 + 2 * 8 + 16) + (16 + 16));
  EXPECT_EQ(std::memcmp(bytes.data(), "HRSR\x01\x00\x00\x00", 8), 0);
  const StepResult again = decode_step_result(bytes);
  EXPECT_EQ(again.id, 42);
  ASSERT_EQ(again.entries.size(), 2U);
  EXPECT_EQ(again.entries[0].first_position, 16);
  ASSERT_EQ(again.entries[0].scored.size(), 2U);
  EXPECT_EQ(again.entries[0].scored[0].top, result.entries[0].scored[0].top);
  EXPECT_EQ(again.entries[0].scored[1].rank, 9);
  EXPECT_FALSE(again.entries[0].sampled);
  EXPECT_TRUE(again.entries[1].sampled);
  EXPECT_EQ(again.entries[1].token.token, 77);
  EXPECT_EQ(bytes_of(again), bytes);
}

TEST(StepPlan, AppendsToWhatIsThere) {
  std::vector<std::byte> out(3);
  encode(full_result(), out);
  EXPECT_EQ(decode_step_result(std::span(out).subspan(3)).id, 42);
}

struct Contradiction {
  const char* field;
  std::function<void(StepPlan&)> make;
};

TEST(StepPlan, NamesTheFieldThatContradicts) {
  const std::vector<Contradiction> cases = {
      {"tokens", [](StepPlan& p) { p.tokens.pop_back(); }},
      {"tokens", [](StepPlan& p) { p.tokens[0] = -1; }},
      {"new_blocks", [](StepPlan& p) { p.new_blocks.push_back(1); }},
      {"new_blocks", [](StepPlan& p) { p.new_blocks[0] = -4; }},
      {"new_blocks", [](StepPlan& p) { p.entries[1].num_new_blocks[1] = 1; }},
      {"num_new_blocks", [](StepPlan& p) { p.entries[1].num_new_blocks[1] = -1; }},
      {"num_kv_groups", [](StepPlan& p) { p.num_kv_groups = 0; }},
      {"following", [](StepPlan& p) { p.following.clear(); }},
      {"following", [](StepPlan& p) { p.following[0] = -2; }},
      {"released",
       [](StepPlan& p) {
         p.released = {2, 2};
       }},
      {"released", [](StepPlan& p) { p.released = {-1}; }},
      {"saves", [](StepPlan& p) { p.saves[1].block = 21; }},
      {"saves", [](StepPlan& p) { p.saves[1].swap_block = 4; }},
      {"saves", [](StepPlan& p) { p.saves[0].block = -1; }},
      {"restores", [](StepPlan& p) { p.restores[0].swap_block = -1; }},
      {"restores", [](StepPlan& p) { p.restores.push_back(p.restores[0]); }},
      {"admitted slot", [](StepPlan& p) { p.admitted.push_back(p.admitted[0]); }},
      {"num_rows", [](StepPlan& p) { p.entries[0].num_rows = 0; }},
      {"first_position", [](StepPlan& p) { p.entries[0].first_position = -1; }},
      {"first_position", [](StepPlan& p) { p.entries[0].first_position = 0x7FFFFFFF; }},
      {"num_prompt_tokens", [](StepPlan& p) { p.admitted[0].num_prompt_tokens = 0; }},
      {"max_length", [](StepPlan& p) { p.admitted[0].max_length = 16; }},
      {"temperature", [](StepPlan& p) { p.admitted[0].params.temperature = NAN; }},
      {"temperature", [](StepPlan& p) { p.admitted[0].params.temperature = -1; }},
      {"top_p", [](StepPlan& p) { p.admitted[0].params.top_p = 0; }},
      {"top_k", [](StepPlan& p) { p.admitted[0].params.top_k = -1; }},
      {"min_p", [](StepPlan& p) { p.admitted[0].params.min_p = 1.5F; }},
      {"repetition_penalty", [](StepPlan& p) { p.admitted[0].params.repetition_penalty = 0; }},
      {"logit_bias", [](StepPlan& p) { p.admitted[0].params.logit_bias[1].first = 2; }},
      {"logit_bias", [](StepPlan& p) { p.admitted[0].params.logit_bias[1].second = INFINITY; }},
      {"banned_before_min", [](StepPlan& p) { p.admitted[0].params.banned_before_min[1] = 0; }},
      {"num_banned_before_min",
       [](StepPlan& p) { p.admitted[0].params.banned_before_min.resize(kMaxStopIds + 1); }},
      {"num_logprobs", [](StepPlan& p) { p.admitted[0].params.num_logprobs = 21; }},
      {"num_prompt_logprobs", [](StepPlan& p) { p.admitted[0].params.num_prompt_logprobs = -2; }},
  };
  for (const Contradiction& c : cases) {
    StepPlan plan = full_plan();
    c.make(plan);
    try {
      decode_step_plan(bytes_of(plan));
      ADD_FAILURE() << "accepted, field " << c.field;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(c.field), std::string::npos) << error.what();
    }
  }
}

TEST(StepPlan, RefusesOtherVersionsAndLengths) {
  std::vector<std::byte> bytes = bytes_of(full_plan());
  bytes[4] = std::byte{3};
  EXPECT_THROW(decode_step_plan(bytes), std::runtime_error);
  bytes[4] = std::byte{4};
  bytes[44] = std::byte{3};  // KV groups
  EXPECT_THROW(decode_step_plan(bytes), std::runtime_error);
  bytes[44] = std::byte{2};
  EXPECT_NO_THROW(decode_step_plan(bytes));
  bytes.push_back(std::byte{0});
  EXPECT_THROW(decode_step_plan(bytes), std::runtime_error);
  bytes = bytes_of(full_result());
  EXPECT_THROW(decode_step_plan(bytes), std::runtime_error);
  bytes[4] = std::byte{9};
  EXPECT_THROW(decode_step_result(bytes), std::runtime_error);
}

// Decodes damaged bytes: it either throws std::runtime_error, or what it gives encodes to the same
// bytes again, so nothing was guessed.
template <typename Decode>
void mutate(const std::vector<std::byte>& good, const Decode& decode, int num_seeds) {
  for (int seed = 0; seed < num_seeds; ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    std::vector<std::byte> bytes = good;
    if (seed % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    const int num_changes = static_cast<int>(random() % 4);
    for (int i = 0; i < num_changes && !bytes.empty(); ++i) {
      constexpr int kEdges[] = {0, 1, 0x7F, 0x80, 0xFF};
      const bool edge = random() % 2 == 0;
      bytes[random() % bytes.size()] =
          static_cast<std::byte>(edge ? kEdges[random() % 5] : static_cast<int>(random() % 256));
    }
    try {
      ASSERT_EQ(bytes_of(decode(bytes)), bytes) << seed;
    } catch (const std::runtime_error&) {
    }
  }
}

TEST(StepPlan, DamagedBytesAreRefusedOrMeanWhatTheySay) {
  mutate(
      bytes_of(full_plan()), [](const auto& bytes) { return decode_step_plan(bytes); }, 40000);
}

TEST(StepResult, DamagedBytesAreRefusedOrMeanWhatTheySay) {
  mutate(
      bytes_of(full_result()), [](const auto& bytes) { return decode_step_result(bytes); }, 40000);
}

TEST(StepPlan, EveryTruncationIsRefused) {
  const std::vector<std::byte> plan = bytes_of(full_plan());
  for (std::size_t size = 0; size < plan.size(); ++size) {
    EXPECT_THROW(decode_step_plan(std::span(plan).first(size)), std::runtime_error) << size;
  }
  const std::vector<std::byte> result = bytes_of(full_result());
  for (std::size_t size = 0; size < result.size(); ++size) {
    EXPECT_THROW(decode_step_result(std::span(result).first(size)), std::runtime_error) << size;
  }
}

}  // namespace
}  // namespace headrace
