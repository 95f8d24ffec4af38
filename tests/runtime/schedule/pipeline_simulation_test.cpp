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

Simulation run(const Job& job) {
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
  return testing::simulate(scheduler, balanced_cost(job), job.num_sequences);
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

TEST(PipelineSimulation, Print) {
  const auto show = [](const char* name, const Job& job) {
    const Simulation a = run(job);
    const Simulation b = run_greedy(job);
    std::printf("%-28s ours steady %.3f whole %.3f time %.0f steps %zu | greedy steady %.3f whole %.3f time %.0f\n", name,
                steady_utilisation(a), a.utilisation(0, a.makespan), a.makespan, a.steps.size(), steady_utilisation(b),
                b.utilisation(0, b.makespan), b.makespan);
  };
  show("P2 32..256/128", {});
  show("P2 vary out", {.min_output = 16, .max_output = 240});
  show("P4 32..256/128", {.num_stages = 4});
  show("P8 32..256/128", {.num_stages = 8});
  show("P4 vary out", {.min_output = 16, .max_output = 240, .num_stages = 4});
  show("P4 long in", {.min_prompt = 500, .max_prompt = 1500, .num_stages = 4, .num_blocks = 20000});
  show("P4 long out", {.min_prompt = 16, .max_prompt = 112, .min_output = 256, .max_output = 768, .num_stages = 4, .num_blocks = 20000});
  show("P4 few blocks", {.num_stages = 4, .num_blocks = 1000});
  show("P2 5000", {.num_sequences = 5000});
  show("P2 300", {.num_sequences = 300});
}

}  // namespace
}  // namespace headrace
