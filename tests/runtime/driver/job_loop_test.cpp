#include "runtime/driver/job_loop.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/runtime/driver/threads_job.h"
#include "tests/runtime/job/temporary_directory.h"

namespace headrace {
namespace {

const char* const kRequests = R"({"custom_id":"a","prompt":"two","temperature":0,"max_tokens":20}
{"custom_id":"b","prompt":"river carries letters","seed":3,"n":3,"max_tokens":12}
{"custom_id":"c","prompt":"small stones","max_tokens":30,"stop":["e","ri"],"temperature":0.8}
not a request
{"custom_id":"d","prompt":[5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21],"max_tokens":1,"echo":true,"logprobs":3}
{"custom_id":"e","prompt":"every bridge","max_tokens":40,"ignore_eos":true,"repetition_penalty":1.3}
{"custom_id":"f","prompt":["a","b","c","d"],"max_tokens":9,"logprobs":2}
{"custom_id":"g","prompt":"under old wooden places","max_tokens":60,"ignore_eos":true,"top_p":0.8}
)";

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class JobLoop : public testing::Test {
 protected:
  ThreadsJob job(ParallelLayout layout, const std::string& output) const {
    return {.layout = layout,
            .model = "tests/data/golden/gqa_tied",
            .input = directory_.write("requests.jsonl", kRequests),
            .output = directory_ / output};
  }

  TemporaryDirectory directory_;
};

class JobLoopOfLayout : public JobLoop, public testing::WithParamInterface<ParallelLayout> {};

TEST_P(JobLoopOfLayout, EveryLayoutWritesTheBytesOfOneRank) {
  const ThreadsJob alone = job({1, 1, 1}, "alone.jsonl");
  ASSERT_EQ(run_threads_job(alone).end, LoopEnd::kFinished);
  const ThreadsJob split = job(GetParam(), "split.jsonl");
  ASSERT_EQ(run_threads_job(split).end, LoopEnd::kFinished);
  EXPECT_EQ(content(split.output), content(alone.output));
  EXPECT_NE(content(alone.output).find("\"custom_id\":\"g\""), std::string::npos);
}

TEST_P(JobLoopOfLayout, AStoppedJobGoesOnWhereItWasAndWritesTheSameBytes) {
  const ThreadsJob alone = job({1, 1, 1}, "alone.jsonl");
  ASSERT_EQ(run_threads_job(alone).end, LoopEnd::kFinished);
  ThreadsJob stopped = job(GetParam(), "stopped.jsonl");
  int num_asked = 0;
  stopped.stop_requested = [&] { return ++num_asked > 40 ? 15 : 0; };
  const LoopEnd end = run_threads_job(stopped).end;
  ASSERT_EQ(end, LoopEnd::kStopped);
  EXPECT_FALSE(std::filesystem::exists(stopped.output));
  EXPECT_TRUE(std::filesystem::exists(stopped.output + ".journal"));
  stopped.stop_requested = [] { return 0; };
  ASSERT_EQ(run_threads_job(stopped).end, LoopEnd::kFinished);
  EXPECT_EQ(content(stopped.output), content(alone.output));
}

// One replica is many times slower: near the end its sequences move, and no byte changes.
TEST_F(JobLoop, ASlowReplicaDoesNotHoldTheJob) {
  std::ostringstream lines;
  for (int i = 0; i < 60; ++i) {
    lines << R"({"prompt":"small stones )" << i << R"(","max_tokens":60,"ignore_eos":true})"
          << '\n';
  }
  ThreadsJob alone = job({1, 1, 1}, "alone.jsonl");
  alone.input = directory_.write("many.jsonl", lines.str());
  ASSERT_EQ(run_threads_job(alone).end, LoopEnd::kFinished);
  ThreadsJob split = alone;
  split.layout = {1, 1, 2};
  split.slow_replica = 1;
  split.output = directory_ / "split.jsonl";
  const ThreadsJobEnd end = run_threads_job(split);
  ASSERT_EQ(end.end, LoopEnd::kFinished);
  EXPECT_EQ(content(split.output), content(alone.output));
  EXPECT_GT(end.counts.num_moved_sequences, 0);
}

INSTANTIATE_TEST_SUITE_P(Layouts, JobLoopOfLayout,
                         testing::Values(ParallelLayout{1, 1, 1}, ParallelLayout{3, 1, 1},
                                         ParallelLayout{1, 2, 1}, ParallelLayout{2, 2, 1},
                                         ParallelLayout{1, 1, 3}, ParallelLayout{2, 1, 2},
                                         ParallelLayout{2, 2, 2}),
                         [](const auto& layout) { return "of" + to_string(layout.param); });

}  // namespace
}  // namespace headrace
