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

constexpr int kRequestsAPrompt = 3;

// The golden prompts, each scored whole, and continued greedily and by sampling.
std::string requests_of(const std::filesystem::path& folder) {
  const json expected = json::parse(std::ifstream(folder / "expected.json"));
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

// The scores of the prompts as the whole program reports them, against transformers'.
void expect_scores(const std::string& output, const std::filesystem::path& folder) {
  const json expected = json::parse(std::ifstream(folder / "expected.json"));
  std::istringstream lines(output);
  for (const json& prompt : expected.at("prompts")) {
    if (prompt.at("ids").size() > 90) continue;
    std::string line;
    for (int i = 0; i < kRequestsAPrompt; ++i) {
      std::string next;
      ASSERT_TRUE(std::getline(lines, next));
      if (i == 0) line = next;
    }
    const json answer = json::parse(line);
    const json& scores = answer.at("response").at("body").at("choices")[0].at("logprobs");
    for (std::size_t i = 1; i < prompt.at("ids").size(); ++i) {
      ASSERT_NEAR(scores.at("token_logprobs")[i].get<float>(),
                  prompt.at("log_probs")[i].get<float>(), 1e-3F)
          << folder << ", prompt of " << prompt.at("ids").size() << " tokens, position " << i;
    }
  }
}

class Layouts : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Layouts, GiveTheBytesOfOneRank) {
  const std::string model = model_in(GetParam()).string();
  const ModelConfig config = Checkpoint::open(model)->config();
  const int most = max_tensor_parallel_size(sharded_sizes(config));
  const TemporaryDirectory directory;
  const bool has_tokenizer = std::filesystem::exists(GetParam() / "tokenizer.json") ||
                             GetParam().parent_path() == kGoldens;
  ThreadsJob job{.layout = {1, 1, 1},
                 .model = model,
                 .tokenizer = has_tokenizer ? "" : model_path("gqa_tied").string(),
                 .input = directory.write("requests.jsonl", requests_of(GetParam())),
                 .output = directory / "alone.jsonl"};
  ASSERT_EQ(run_threads_job(job), LoopEnd::kFinished);
  const std::string expected = content(job.output);
  ASSERT_NE(expected.find("\"finish_reason\":\"length\""), std::string::npos) << expected;
  expect_scores(expected, GetParam());
  for (const ParallelLayout& layout : kLayouts) {
    if (layout.tensor > most || layout.pipeline > config.num_layers + 1) continue;
    job.layout = layout;
    job.output = directory / (to_string(layout) + ".jsonl");
    ASSERT_EQ(run_threads_job(job), LoopEnd::kFinished);
    ASSERT_EQ(content(job.output), expected) << GetParam() << ", " << to_string(layout);
  }
}

// All of the Llama family, and of the others those whose traits reach beyond one operator: windows
// (whose blocks are used again), two RoPEs, long RoPE, learned positions, residuals side by side.
std::vector<std::filesystem::path> models() {
  std::vector<std::filesystem::path> folders;
  for (const std::string& name : golden_names()) folders.push_back(kGoldens / name);
  for (const char* name : {"falcon_new", "gemma3", "gpt2", "mistral", "phi3_long_gguf"}) {
    folders.push_back(std::filesystem::path("tests/data/golden_families") / name);
  }
  return folders;
}

INSTANTIATE_TEST_SUITE_P(Models, Layouts, testing::ValuesIn(models()),
                         [](const auto& folder) { return folder.param.filename().string(); });

}  // namespace
}  // namespace headrace
