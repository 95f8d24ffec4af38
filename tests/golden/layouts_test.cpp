// Every golden model in every layout: whole jobs, each rank a thread, with the bytes of one rank;
// what one rank computes is compared with transformers in golden_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "model/checkpoint/checkpoint.h"
#include "model/stage_part.h"
#include "tests/golden/golden_models.h"
#include "tests/runtime/driver/threads_job.h"
#include "tests/runtime/job/temporary_directory.h"

namespace headrace {
namespace {

using nlohmann::json;

constexpr ParallelLayout kLayouts[] = {{3, 1, 1}, {1, 2, 1}, {2, 2, 1}, {1, 1, 2}, {2, 1, 2}};

// The golden prompts, each scored whole, and continued greedily and by sampling.
std::string requests_of(const std::string& name) {
  const json expected = json::parse(std::ifstream(kGoldens / name / "expected.json"));
  std::ostringstream lines;
  for (const json& prompt : expected.at("prompts")) {
    const json& ids = prompt.at("ids");
    if (ids.size() > 90) continue;  // what is left of the context must hold the completion
    lines << json{{"prompt", ids},
                  {"max_tokens", 1},
                  {"echo", true},
                  {"logprobs", 2},
                  {"temperature", 0}}
          << '\n'
          << json{{"prompt", ids},
                  {"max_tokens", 16},
                  {"ignore_eos", true},
                  {"logprobs", 1},
                  {"temperature", 0}}
          << '\n'
          << json{{"prompt", ids}, {"max_tokens", 12}, {"seed", 5}, {"n", 2}} << '\n';
  }
  return lines.str();
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class Layouts : public testing::TestWithParam<std::string> {};

TEST_P(Layouts, GiveTheBytesOfOneRank) {
  const std::string model = model_path(GetParam()).string();
  const ModelConfig config = Checkpoint::open(model)->config();
  const int most = max_tensor_parallel_size(sharded_sizes(config));
  const TemporaryDirectory directory;
  ThreadsJob job{.layout = {1, 1, 1},
                 .model = model,
                 .input = directory.write("requests.jsonl", requests_of(GetParam())),
                 .output = directory / "alone.jsonl"};
  ASSERT_EQ(run_threads_job(job), LoopEnd::kFinished);
  const std::string expected = content(job.output);
  ASSERT_NE(expected.find("\"finish_reason\":\"length\""), std::string::npos) << expected;
  for (const ParallelLayout& layout : kLayouts) {
    if (layout.tensor > most || layout.pipeline > config.num_layers + 1) continue;
    job.layout = layout;
    job.output = directory / (to_string(layout) + ".jsonl");
    ASSERT_EQ(run_threads_job(job), LoopEnd::kFinished);
    ASSERT_EQ(content(job.output), expected) << GetParam() << ", " << to_string(layout);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Layouts, testing::ValuesIn(golden_names()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace headrace
