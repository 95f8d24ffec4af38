// Every golden model in every layout, and from an .h5 file: whole jobs, each rank a thread, with
// the bytes of one rank; what one rank computes is compared with transformers in golden_test.cpp
// and family_test.cpp.
#include <fstream>
#include <sstream>

#include "model/checkpoint/convert_checkpoint.h"
#include "tests/golden/whole_model.h"
#include "tests/runtime/driver/threads_job.h"
#include "tests/runtime/job/temporary_directory.h"

namespace headrace {
namespace {

using namespace golden;  // NOLINT(google-build-using-namespace): the helpers of this folder
using nlohmann::json;

constexpr ParallelLayout kLayouts[] = {{3, 1, 1}, {1, 2, 1}, {2, 2, 1}, {1, 1, 2}, {2, 1, 2}};

std::vector<std::filesystem::path> all_goldens() {
  std::vector<std::filesystem::path> folders;
  for (const std::filesystem::path goldens : {"tests/data/golden", "tests/data/golden_families"}) {
    for (const std::string& name : golden_names(goldens)) folders.push_back(goldens / name);
  }
  return folders;
}

// Golden prompts, each scored whole, and continued greedily and by sampling: the shortest and the
// longest, which reaches beyond windows.
std::vector<json> prompts_of(const std::filesystem::path& folder, int context) {
  const json expected = json::parse(std::ifstream(folder / "expected.json"));
  std::vector<json> prompts;
  for (const json& prompt : expected.at("prompts")) {
    if (static_cast<int>(prompt.at("ids").size()) + 16 <= context) prompts.push_back(prompt);
  }
  return {prompts.front(), prompts.back()};
}

constexpr int kRequestsAPrompt = 3;

std::string requests_of(const std::vector<json>& prompts) {
  std::ostringstream lines;
  for (const json& prompt : prompts) {
    const json& ids = prompt.at("ids");
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

// The scores of the prompts as the whole job reports them, against transformers'.
void expect_scores(const std::string& output, const std::vector<json>& prompts) {
  std::istringstream lines(output);
  std::vector<json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), prompts.size() * kRequestsAPrompt);
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    const json& body = answers[p * kRequestsAPrompt].at("response").at("body");
    const json& scores = body.at("choices")[0].at("logprobs").at("token_logprobs");
    for (std::size_t i = 1; i < prompts[p].at("ids").size(); ++i) {
      ASSERT_NEAR(scores[i].get<float>(), prompts[p].at("log_probs")[i].get<float>(), 1e-3F)
          << "prompt " << p << ", position " << i;
    }
  }
}

class Layouts : public testing::TestWithParam<std::filesystem::path> {
 protected:
  Layouts() : config_(Checkpoint::open(model_path(GetParam()))->config()) {
    job_.model = model_path(GetParam()).string();
    job_.tokenizer = "tests/data/golden/gqa_tied";
    const int context = std::min(job_.max_model_len, config_.max_position_embeddings);
    job_.max_model_len = context;
    prompts_ = prompts_of(GetParam(), context);
    job_.input = directory_.write("requests.jsonl", requests_of(prompts_));
  }

  std::string run(const std::string& model, ParallelLayout layout, int num_blocks = 0) {
    ThreadsJob job = job_;
    if (num_blocks > 0) job.num_blocks = num_blocks;
    job.model = model;
    job.layout = layout;
    job.output = directory_ / ("output" + std::to_string(num_runs_++) + ".jsonl");
    EXPECT_EQ(run_threads_job(job).end, LoopEnd::kFinished);
    return content(job.output);
  }

  bool is_possible(const ParallelLayout& layout) const {
    const int most = max_tensor_parallel_size(sharded_sizes(config_));
    return layout.tensor <= most && layout.pipeline <= config_.num_layers + 1;
  }

  ModelConfig config_;
  std::vector<json> prompts_;
  TemporaryDirectory directory_;
  ThreadsJob job_;
  int num_runs_ = 0;
};

TEST_P(Layouts, GiveTheBytesOfOneRank) {
  const std::string expected = run(job_.model, {1, 1, 1});
  ASSERT_NE(expected.find("\"finish_reason\":\"length\""), std::string::npos) << expected;
  expect_scores(expected, prompts_);
  for (const ParallelLayout& layout : kLayouts) {
    if (!is_possible(layout)) continue;
    ASSERT_EQ(run(job_.model, layout), expected) << to_string(layout);
  }
}

// Just enough KV blocks for the longest sequence, so that several at a time preempt each other, and
// windows give blocks to layers that see everything.
TEST_P(Layouts, LittleKvGivesTheBytesOfPlenty) {
  const std::string expected = run(job_.model, {1, 1, 1});
  for (const ParallelLayout& layout : {ParallelLayout{1, 1, 1}, ParallelLayout{2, 1, 1}}) {
    ThreadsJob job = job_;
    job.layout = layout;
    const SchedulerLimits limits = limits_of(job, config_);
    const int least = Scheduler::blocks_for(limits, job.max_model_len);
    EXPECT_EQ(run(job_.model, layout, least), expected) << to_string(layout);
  }
}

TEST_P(Layouts, AnHdf5CheckpointGivesTheBytesOfItsSource) {
  const std::unique_ptr<Checkpoint> source = Checkpoint::open(job_.model);
  const std::string converted = directory_ / "model.h5";
  // As float32, since the jobs compute in it and quantised blocks would become bfloat16.
  convert_to_hdf5(*source, converted,
                  {.dtype = DType::kFloat32, .source = "golden", .program = "test"}, {});
  const std::string expected = run(job_.model, {1, 1, 1});
  EXPECT_EQ(run(converted, {1, 1, 1}), expected);
  const ParallelLayout split{2, is_possible({2, 2, 1}) ? 2 : 1, 1};
  EXPECT_EQ(run(converted, split), expected);
}

INSTANTIATE_TEST_SUITE_P(Models, Layouts, testing::ValuesIn(all_goldens()), [](const auto& folder) {
  return folder.param.parent_path().filename().string() + "_" + folder.param.filename().string();
});

}  // namespace
}  // namespace headrace
