#include "launch/inspect.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/job/job_store.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

const fs::path kGoldens = "tests/data/golden";

class InspectTest : public testing::Test {
 protected:
  InspectTest() {
    folder_ =
        fs::path(testing::TempDir()) /
        ("inspect_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }

  static Findings inspect(const fs::path& path, bool verify = false) {
    return inspect_path({.path = path.string(), .journal_dir = "", .verify = verify});
  }

  fs::path folder_;
};

constexpr const char* kAnswered =
    R"({"id":"b","custom_id":"x","response":{"status_code":200,"request_id":"r","body":{}},"error":null})"
    "\n";
constexpr const char* kFailed =
    R"({"id":"b","custom_id":"y","response":null,"error":{"code":"c","message":"m","line":2}})"
    "\n";

TEST_F(InspectTest, AHuggingFaceDirectoryIsAModel) {
  const Findings f = inspect(kGoldens / "gqa_tied", true);
  EXPECT_EQ(f.problems, std::vector<std::string>{});
  EXPECT_EQ(f.exit_code, 0);
  EXPECT_EQ(f.kind, "model (Hugging Face directory)");
  EXPECT_EQ(f.facts["layers"], 5);
  EXPECT_EQ(f.facts["heads"], 9);
  EXPECT_EQ(f.facts["kv_heads"], 3);
  EXPECT_EQ(f.facts["tied_head"], true);
  EXPECT_EQ(f.facts["dtype_auto"], "bfloat16");
  EXPECT_EQ(f.facts["tokenizer"]["kind"], "BPE");
  EXPECT_EQ(f.facts["chat_templates"], ordered_json({"default"}));
  EXPECT_TRUE(f.facts["files"].contains("config.json"));
}

TEST_F(InspectTest, AGgufFileIsAModel) {
  const Findings f = inspect(kGoldens / "gguf_q4_1/model.gguf", true);
  EXPECT_EQ(f.problems, std::vector<std::string>{});
  EXPECT_EQ(f.kind, "model (GGUF)");
  EXPECT_TRUE(f.facts["stored_types"].contains("Q4_1"));
  EXPECT_EQ(f.facts["tokenizer"]["kind"], "gpt2 (llama-bpe)");
}

TEST_F(InspectTest, ADirectoryWithATokenizerOnlyIsNotSound) {
  fs::copy_file(kGoldens / "gqa_tied/tokenizer.json", folder_ / "tokenizer.json");
  const Findings f = inspect(folder_);
  EXPECT_EQ(f.exit_code, 2);
  ASSERT_EQ(f.problems.size(), 1U);
  EXPECT_NE(f.problems[0].find("config.json"), std::string::npos) << f.problems[0];
  EXPECT_EQ(f.facts["tokenizer"]["kind"], "BPE");
}

TEST_F(InspectTest, ASentencePieceModelIsATokenizerToo) {
  fs::copy(kGoldens / "gqa_tied", folder_ / "m", fs::copy_options::recursive);
  fs::remove(folder_ / "m/tokenizer.json");
  fs::remove(folder_ / "m/tokenizer_config.json");
  fs::copy_file("tests/data/tokenizer/spm_own_unigram/tokenizer.model",
                folder_ / "m/tokenizer.model");
  const Findings f = inspect(folder_ / "m");
  EXPECT_EQ(f.problems, std::vector<std::string>{});
  EXPECT_EQ(f.facts["tokenizer"]["kind"], "SentencePiece (unigram)");
}

TEST_F(InspectTest, ATruncatedModelIsNotSound) {
  const fs::path copy = folder_ / "model.gguf";
  fs::copy_file(kGoldens / "gguf_q4_1/model.gguf", copy);
  fs::resize_file(copy, fs::file_size(copy) - 1000);
  const Findings f = inspect(copy);
  EXPECT_EQ(f.exit_code, 2);
  EXPECT_FALSE(f.problems.empty());
}

TEST_F(InspectTest, WeightsThatAreNoNumbersAreFoundWithVerify) {
  fs::copy(kGoldens / "wide_heads_f32", folder_ / "m", fs::copy_options::recursive);
  const fs::path weights = folder_ / "m/model.safetensors";
  std::fstream file(weights, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-4, std::ios::end);
  file.write("\x00\x00\xc0\x7f", 4);  // a float32 NaN
  file.close();
  EXPECT_EQ(inspect(folder_ / "m").exit_code, 0);
  EXPECT_EQ(inspect(folder_ / "m", true).exit_code, 2);
}

TEST_F(InspectTest, RequestsAreCountedByForm) {
  const std::string path = write(
      "r.jsonl",
      R"({"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}})"
      "\n\n"
      R"({"prompt":"p"})"
      "\n"
      R"({"custom_id":"b","messages":[]})"
      "\n");
  const Findings f = inspect(path);
  EXPECT_EQ(f.kind, "requests");
  EXPECT_EQ(f.exit_code, 0);
  EXPECT_EQ(f.facts["requests"], 3);
  EXPECT_EQ(f.facts["forms"]["/v1/chat/completions"], 1);
  EXPECT_EQ(f.facts["without_custom_id"], 1);
}

TEST_F(InspectTest, BadRequestLinesAreNamed) {
  const std::string path = write("r.jsonl",
                                 "{\"custom_id\":\"a\",\"prompt\":\"p\"}\n"
                                 "{\"custom_id\":\"a\",\"prompt\":\"p\"}\n"
                                 "{\"prompt\":\n"
                                 "{\"foo\":1}\n"
                                 "{\"custom_id\":5,\"prompt\":\"p\"}\n");
  const Findings f = inspect(path);
  EXPECT_EQ(f.exit_code, 2);
  EXPECT_EQ(f.facts["bad_lines"], 4);
  ASSERT_EQ(f.problems.size(), 4U);
  EXPECT_NE(f.problems[0].find("line 2: custom_id \"a\" came before"), std::string::npos)
      << f.problems[0];
  EXPECT_NE(f.problems[1].find("line 3"), std::string::npos);
}

TEST_F(InspectTest, ManyBadLinesAreSummedUp) {
  std::string content = "{\"prompt\":\"p\"}\n";
  for (int i = 0; i < 100; ++i) content += "{\n";
  const Findings f = inspect(write("r.jsonl", content));
  EXPECT_EQ(f.problems.size(), 11U);
  EXPECT_EQ(f.problems.back(), "90 more bad lines");
}

TEST_F(InspectTest, AnOutputWithoutASummaryIsCountedLineByLine) {
  const Findings complete = inspect(write("o.jsonl", kAnswered));
  EXPECT_EQ(complete.kind, "output of a job");
  EXPECT_EQ(complete.exit_code, 0);
  const Findings failures = inspect(write("p.jsonl", std::string(kAnswered) + kFailed));
  EXPECT_EQ(failures.exit_code, 3);
  EXPECT_EQ(failures.facts["answered"], 1);
  EXPECT_EQ(failures.facts["failed"], 1);
}

TEST_F(InspectTest, ADamagedOutputIsNotSound) {
  const Findings f = inspect(write("o.jsonl", std::string(kAnswered) + "{\"custom"));
  EXPECT_EQ(f.exit_code, 2);
  EXPECT_NE(f.problems.at(0).find("line 2"), std::string::npos) << f.problems[0];
}

/// A job of two lines, the second of which fails; stopped after `finished` of them.
void run_job(const std::string& output, int finished, const JobPaths& elsewhere = {}) {
  JobOptions options;
  options.paths = {
      .output = output, .error_file = elsewhere.error_file, .journal_dir = elsewhere.journal_dir};
  options.key = {{.name = "dtype", .value = "float32", .option = "--dtype float32"}};
  JobStore store(options);
  for (int i = 0; i < 2; ++i) {
    InputLine line;
    line.ordinal = i;
    line.number = i + 1;
    line.hash = static_cast<std::uint64_t>(i) + 100;
    store.begin_line(line, "r.jsonl, line 1");
  }
  store.end_input();
  for (int i = 0; i < finished; ++i) {
    const std::string_view text = i == 0 ? kAnswered : kFailed;
    store.finish_line({.ordinal = i,
                       .answered = i == 0,
                       .num_prompt_tokens = 3,
                       .num_completion_tokens = i == 0 ? 2 : 0},
                      text.substr(0, text.size() - 1));
  }
  store.flush();
  if (finished == 2) store.complete({{"layout", "1x1x1"}, {"wall_s", 1.5}});
}

TEST_F(InspectTest, AFinishedJobIsDescribedByItsSummary) {
  const std::string output = (folder_ / "o.jsonl").string();
  run_job(output, 2);
  for (const std::string& path : {output, output + ".summary.json"}) {
    const Findings f = inspect(path, true);
    EXPECT_EQ(f.exit_code, 3) << path;
    EXPECT_EQ(f.problems, std::vector<std::string>{});
    EXPECT_EQ(f.facts["answered"], 1);
    EXPECT_EQ(f.facts["failed"], 1);
    EXPECT_EQ(f.facts["completion_tokens"], 2);
    EXPECT_EQ(f.facts["job_key"]["dtype"], "float32");
    EXPECT_EQ(f.facts["layout"], "1x1x1");
    EXPECT_EQ(f.facts["resumable"], false);
  }
}

TEST_F(InspectTest, AnUnfinishedJobIsResumableByAnyOfItsFiles) {
  const std::string output = (folder_ / "o.jsonl").string();
  run_job(output, 1);
  for (const char* ending : {"", ".partial", ".journal"}) {
    const Findings f = inspect(output + ending);
    EXPECT_EQ(f.exit_code, 75) << ending;
    EXPECT_EQ(f.facts["answered"], 1);
    EXPECT_EQ(f.facts["resumable"], true);
    EXPECT_EQ(f.facts["output"], output);
  }
}

TEST_F(InspectTest, AJournalElsewhereIsAskedFor) {
  const std::string output = (folder_ / "o.jsonl").string();
  const std::string journals = (folder_ / "journals").string();
  fs::create_directories(journals);
  run_job(output, 1, {.output = "", .error_file = "", .journal_dir = journals});
  const Findings f = inspect(output);
  EXPECT_EQ(f.exit_code, 2);
  EXPECT_NE(f.problems.at(0).find("--journal-dir"), std::string::npos) << f.problems[0];
  EXPECT_EQ(inspect_path({.path = output, .journal_dir = journals}).exit_code, 75);
}

TEST_F(InspectTest, FailuresInAnErrorFileCountToo) {
  const std::string output = (folder_ / "o.jsonl").string();
  run_job(output, 2,
          {.output = "", .error_file = (folder_ / "e.jsonl").string(), .journal_dir = ""});
  const Findings f = inspect(output, true);
  EXPECT_EQ(f.exit_code, 3);
  EXPECT_EQ(f.problems, std::vector<std::string>{});
}

TEST_F(InspectTest, LinesThatTheSummaryDoesNotKnowAreFoundWithVerify) {
  const std::string output = (folder_ / "o.jsonl").string();
  run_job(output, 2);
  // The same number of bytes, but no failure among them.
  std::string answered(kAnswered);
  std::string other = answered + answered;
  const auto size = fs::file_size(output);
  ASSERT_GT(other.size(), size);
  other = answered + R"({"custom_id":"y","response":{"body":{}},"error":null)";
  other += std::string(size - other.size() - 2, ' ') + "}\n";
  std::ofstream(output, std::ios::binary) << other;
  EXPECT_EQ(inspect(output).exit_code, 3);
  EXPECT_EQ(inspect(output, true).exit_code, 2);
}

TEST_F(InspectTest, ACutOutputIsNotSound) {
  const std::string output = (folder_ / "o.jsonl").string();
  run_job(output, 2);
  fs::resize_file(output, fs::file_size(output) - 5);
  EXPECT_EQ(inspect(output).exit_code, 2);
}

TEST_F(InspectTest, ADamagedJournalIsNotSound) {
  const std::string output = (folder_ / "o.jsonl").string();
  run_job(output, 1);
  std::ofstream(output + ".journal", std::ios::binary) << "garbage";
  const Findings f = inspect(output);
  EXPECT_EQ(f.exit_code, 2);
  EXPECT_FALSE(f.problems.empty());
}

TEST_F(InspectTest, OtherFilesAreRefused) {
  EXPECT_THROW(inspect(write("x.txt", "some text\n")), std::invalid_argument);
  EXPECT_THROW(inspect(write("x.json", "{\"a\":1}\n")), std::invalid_argument);
  EXPECT_THROW(inspect(write("empty", "")), std::invalid_argument);
  EXPECT_THROW(inspect(folder_ / "missing"), std::invalid_argument);
  EXPECT_THROW(inspect("org/missing"), std::invalid_argument);
}

TEST_F(InspectTest, ReportsSayWhatWasFound) {
  const Findings f = inspect(kGoldens / "gqa_tied");
  const std::string text = findings_text(f, "some/path");
  EXPECT_NE(text.find("some/path: model (Hugging Face directory)\n"), std::string::npos);
  EXPECT_NE(text.find("\nsound\n"), std::string::npos);
  const ordered_json json = findings_json(f, "some/path");
  EXPECT_EQ(json["sound"], true);
  EXPECT_EQ(json["facts"]["layers"], 5);
}

}  // namespace
}  // namespace headrace
