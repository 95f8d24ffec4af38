#include "pipeline_simulation.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace headrace {
namespace {

using testing::GreedyScheduler;
using testing::PipelineCost;
using testing::SimulatedStep;
using testing::Simulation;

struct Job {
  int num_sequences = 1000;
  int min_prompt = 32;
  int max_prompt = 256;
  int min_output = 128;
  int max_output = 128;
  int num_stages = 2;
  int max_num_seqs = 256;
  int num_blocks = 8000;
};

struct Lengths {
  int prompt;
  int output;
};

std::vector<Lengths> lengths_of(const Job& job) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint32_t>(high - low + 1));
  };
  std::vector<Lengths> lengths;
  lengths.reserve(static_cast<std::size_t>(job.num_sequences));
  for (int i = 0; i < job.num_sequences; ++i) {
    lengths.push_back({draw(job.min_prompt, job.max_prompt), draw(job.min_output, job.max_output)});
  }
  return lengths;
}

// Splits 30 layers so that all stages take as long for the job's mix of rows.
PipelineCost balanced_cost(const Job& job) {
  PipelineCost cost;
  const double ratio = static_cast<double>(job.min_prompt + job.max_prompt) /
                       static_cast<double>(job.min_output + job.max_output);
  const double head_in_layers = cost.head / (1.0 + ratio);
  const double share = (30.0 + head_in_layers) / job.num_stages;
  cost.layers.assign(static_cast<std::size_t>(job.num_stages), share);
  cost.layers.back() -= head_in_layers;
  return cost;
}

Simulation run(const Job& job, SchedulerStats* stats = nullptr) {
  SchedulerLimits limits;
  limits.num_micro_batches = job.num_stages;
  limits.max_num_seqs = job.max_num_seqs;
  limits.num_blocks = job.num_blocks;
  limits.max_model_len = 8192;
  Scheduler scheduler(limits);
  SequenceId id = 0;
  for (const Lengths& l : lengths_of(job)) {
    NewSequence sequence;
    sequence.id = id++;
    sequence.tokens.assign(static_cast<std::size_t>(l.prompt), 1);
    sequence.num_prompt_tokens = l.prompt;
    sequence.max_tokens = l.output;
    EXPECT_TRUE(scheduler.add(std::move(sequence)));
  }
  Simulation simulation = testing::simulate(scheduler, balanced_cost(job), job.num_sequences);
  if (stats != nullptr) *stats = scheduler.stats();
  return simulation;
}

Simulation run_greedy(const Job& job) {
  GreedyScheduler scheduler(job.num_stages, job.max_num_seqs, SchedulerLimits{}.max_rows);
  for (const Lengths& l : lengths_of(job)) scheduler.add(l.prompt, l.output);
  return testing::simulate(scheduler, balanced_cost(job), job.num_sequences);
}

// From the first sequence's end, when decodes have built up, to the last one's admission.
double steady_utilisation(const Simulation& simulation) {
  const double from = *std::min_element(simulation.finished.begin(), simulation.finished.end());
  double to = 0;
  for (const SimulatedStep& step : simulation.steps) {
    if (step.num_waiting > 0) to = step.issued;
  }
  EXPECT_GT(to, from);
  return simulation.utilisation(from, to);
}

constexpr Job kVaried = {.min_output = 16, .max_output = 240, .num_stages = 4};
constexpr Job kLongPrompts = {
    .min_prompt = 500, .max_prompt = 1500, .num_stages = 4, .num_blocks = 20000};
constexpr Job kLongOutputs = {
    .min_prompt = 16, .max_prompt = 112, .min_output = 256, .max_output = 768, .num_stages = 4};
constexpr Job kFewBlocks = {.num_stages = 4, .num_blocks = 1000};

TEST(PipelineSimulation, StagesStayBusyWhileTheMixIsSteady) {
  EXPECT_GE(steady_utilisation(run({})), 0.97);
  EXPECT_GE(steady_utilisation(run({.num_stages = 4})), 0.96);
  EXPECT_GE(steady_utilisation(run({.num_stages = 8})), 0.96);
  EXPECT_GE(steady_utilisation(run(kVaried)), 0.97);
  EXPECT_GE(steady_utilisation(run(kLongPrompts)), 0.97);
  EXPECT_GE(steady_utilisation(run(kLongOutputs)), 0.97);
  EXPECT_GE(steady_utilisation(run(kFewBlocks)), 0.95);
}

TEST(PipelineSimulation, AGreedyQueueWaitsMoreAndTakesLonger) {
  const auto expect_gain = [](const Job& job, double utilisation, double speed) {
    const Simulation ours = run(job);
    const Simulation greedy = run_greedy(job);
    EXPECT_GT(steady_utilisation(ours), steady_utilisation(greedy) + utilisation);
    EXPECT_GT(greedy.makespan, ours.makespan * speed);
  };
  expect_gain({}, 0.04, 1.04);
  expect_gain({.num_stages = 4}, 0.10, 1.12);
  expect_gain({.num_stages = 8}, 0.20, 1.25);
  expect_gain(kVaried, 0.30, 1.40);
  expect_gain(kLongOutputs, 0.15, 1.10);
}

TEST(PipelineSimulation, StepsHaveTheSameMixFromTheFirstEndToTheLastAdmission) {
  const Simulation simulation = run({.num_sequences = 3000});
  const double from = *std::min_element(simulation.finished.begin(), simulation.finished.end());
  std::vector<int> prefill;
  for (const SimulatedStep& step : simulation.steps) {
    if (step.issued < from || step.num_waiting == 0) continue;
    prefill.push_back(step.num_prefill_rows);
    EXPECT_NEAR(step.num_decode_rows, 128, 24);
  }
  // 144 prompt tokens for 128 generated: 1.125 * 128 = 144 rows beside 128 decodes.
  std::sort(prefill.begin(), prefill.end());
  EXPECT_NEAR(prefill[prefill.size() / 2], 144, 10);
  EXPECT_GE(prefill[prefill.size() / 10], 100);
  EXPECT_LE(prefill.back(), 160);
}

TEST(PipelineSimulation, NothingStarves) {
  for (const Job& job : {Job{}, kVaried, kLongPrompts, kFewBlocks}) {
    const Simulation simulation = run(job);
    double before = 0;
    for (std::size_t id = 0; id < simulation.finished.size(); ++id) {
      ASSERT_GT(simulation.finished[id], 0) << id;
      // First come, first served.
      ASSERT_GE(simulation.first_token[id], before) << id;
      before = simulation.first_token[id];
    }
  }
}

TEST(PipelineSimulation, BlocksThatRunShortCostLittle) {
  SchedulerStats stats;
  const Simulation simulation = run(kFewBlocks, &stats);
  EXPECT_GE(simulation.utilisation(0, simulation.makespan), 0.94);
  // Lengths are known here, so the projection leaves nothing to preempt.
  EXPECT_EQ(stats.num_preemptions, 0);
}

TEST(PipelineSimulation, AJobThatFitsAsAWholeIsNotSpreadThin) {
  // A greedy queue is near the best here: all prompts at once, then even decodes.
  const Job job = {.num_sequences = 64};
  EXPECT_LT(run(job).makespan, run_greedy(job).makespan * 1.02);
}

TEST(PipelineSimulation, ALonePromptIsCutSoThatAllStagesWork) {
  const Job job = {.num_sequences = 1,
                   .min_prompt = 1024,
                   .max_prompt = 1024,
                   .min_output = 1,
                   .max_output = 1,
                   .num_stages = 4};
  EXPECT_LT(run(job).makespan, run_greedy(job).makespan * 0.75);
}

TEST(PipelineSimulation, RunsTheSameEveryTime) {
  const Simulation first = run(kVaried);
  const Simulation second = run(kVaried);
  EXPECT_EQ(first.makespan, second.makespan);
  EXPECT_EQ(first.finished, second.finished);
  EXPECT_EQ(first.steps.size(), second.steps.size());
}

}  // namespace
}  // namespace headrace
