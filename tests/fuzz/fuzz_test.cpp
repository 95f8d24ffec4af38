// A bounded share of the fuzz campaigns, with a fixed seed: whatever the damage, a reader ends
// soon, in success or in a refusal. HEADRACE_MUTATIONS sets another number of mutations of each
// target; tests/fuzz/run.sh goes on with other seeds, under sanitizers.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/fuzz/fuzz_run.h"

namespace headrace {
namespace {

std::int64_t num_mutations() {
  const char* number = std::getenv("HEADRACE_MUTATIONS");
  return number == nullptr ? 5000 : std::atoll(number);
}

class Fuzz : public testing::TestWithParam<std::string> {};

TEST_P(Fuzz, DamagedInputsAreTakenOrRefused) {
  const FuzzTarget target = make_fuzz_target(GetParam());
  for (const std::string& input : target.material.sound) EXPECT_NO_THROW(target.accepts(input));
  const FuzzOutcome outcome = run_fuzz(target, {.count = num_mutations(), .seed = 1, .before = {}});
  if (outcome.finding) {
    FAIL() << "mutation " << outcome.finding->mutation << ": " << outcome.finding->what;
  }
  // Most damage is noticed, and some is harmless: else the target tests something else.
  EXPECT_EQ(outcome.accepted + outcome.refused, num_mutations());
  EXPECT_GT(outcome.accepted, 0);
  EXPECT_GT(outcome.refused, num_mutations() / 4);
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(fuzz_target_names()),
                         [](const auto& target) { return target.param; });

TEST(FuzzRun, WhatATargetThrowsIsAFinding) {
  FuzzTarget target{.name = "fragile", .material = {.sound = {"abc"}, .words = {}}, .accepts = {}};
  target.accepts = [](const std::string& input) -> bool {
    if (input.size() > 3) throw std::runtime_error("too long");
    return true;
  };
  const FuzzOutcome outcome = run_fuzz(target, {.count = 1000, .seed = 3, .before = {}});
  ASSERT_TRUE(outcome.finding);
  EXPECT_EQ(outcome.finding->what, "too long");
  EXPECT_GT(outcome.finding->input.size(), 3U);
  // The same seed finds it again.
  const FuzzOutcome again = run_fuzz(target, {.count = 1000, .seed = 3, .before = {}});
  EXPECT_EQ(again.finding->input, outcome.finding->input);
  EXPECT_EQ(again.finding->mutation, outcome.finding->mutation);
}

TEST(FuzzRun, MemoryBeyondTheInputsSizeIsAFinding) {
  FuzzTarget target{.name = "greedy", .material = {.sound = {"abc"}, .words = {}}, .accepts = {}};
  target.accepts = [](const std::string&) { return std::string(64U << 20, 'x').size() > 1; };
  const FuzzOutcome outcome = run_fuzz(target, {.count = 10, .seed = 3, .before = {}});
  ASSERT_TRUE(outcome.finding);
  EXPECT_NE(outcome.finding->what.find("asked for"), std::string::npos);
}

}  // namespace
}  // namespace headrace
