#include "runtime/job/job_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "fake_job.h"
#include "faulty_file_ops.h"
#include "temporary_directory.h"

namespace headrace {
namespace {

class JobStoreTest : public ::testing::Test {
 protected:
  FakeJob job(const std::string& input) {
    FakeJob made;
    made.inputs = {dir_.write("in", input)};
    made.options.paths.output = dir_ / "out";
    made.options.key = {{"dtype", "bfloat16", "--dtype bfloat16"}, {"seed", "0", "--seed 0"}};
    made.options.start_s = 1000;
    return made;
  }
  // Without syncs: these tests stop processes, not machines.
  static FakeResult run(const FakeJob& job) {
    FaultyFileOps files(Fault::kNone, 0);
    return run_fake_job(job, files);
  }

  // What the refusal says.
  static std::string refusal(const FakeJob& job) {
    try {
      run(job);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "not refused";
  }

  std::string output() const { return read_file(dir_ / "out"); }

  TemporaryDirectory dir_;
};

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST_F(JobStoreTest, OutputIsInInputOrderAndNothingElseStays) {
  EXPECT_EQ(run_fake_job(job(fake_input(14)), FileOps::system()).exit_code, 3);
  const auto lines = json_lines(output());
  ASSERT_EQ(lines.size(), 14U);
  EXPECT_EQ(lines[0]["custom_id"], "r0");
  EXPECT_EQ(lines[1]["response"]["body"]["choices"].size(), 4U);
  EXPECT_EQ(lines[3]["error"]["code"], "invalid_request");
  EXPECT_EQ(lines[3]["error"]["line"], 5);  // a blank line stands before
  EXPECT_EQ(lines[5]["error"]["code"], "duplicate_custom_id");
  EXPECT_EQ(lines[6]["error"]["code"], "invalid_json");
  EXPECT_EQ(dir_.names(), (std::set<std::string>{"in", "out", "out.summary.json"}));
}

TEST_F(JobStoreTest, SchedulingHasNoInfluenceOnTheBytes) {
  FakeJob first = job(fake_input(30));
  run(first);
  const std::string expected = output();
  for (const int max_active : {1, 2, 7, 40}) {
    first.options.overwrite = true;
    first.max_active = max_active;
    run(first);
    EXPECT_EQ(output(), expected) << max_active;
  }
}

TEST_F(JobStoreTest, SummaryCountsWhatIsInTheOutput) {
  run(job(fake_input(14)));
  const auto summary = nlohmann::json::parse(read_file(dir_ / "out.summary.json"));
  std::int64_t answered = 0;
  std::int64_t tokens = 0;
  for (const auto& line : json_lines(output())) {
    if (line["response"].is_null()) continue;
    ++answered;
    tokens += line["response"]["body"]["usage"]["completion_tokens"].get<std::int64_t>();
  }
  EXPECT_EQ(summary["answered"], answered);
  EXPECT_EQ(summary["failed"], 14 - answered);
  EXPECT_EQ(summary["input"]["requests"], 14);
  EXPECT_EQ(summary["usage"]["completion_tokens"], tokens);
  EXPECT_EQ(summary["layout"], "1x1x1");
}

TEST_F(JobStoreTest, FailedLinesGoToTheErrorFileInstead) {
  FakeJob apart = job(fake_input(14));
  apart.options.paths.error_file = dir_ / "errors";
  run(apart);
  for (const auto& line : json_lines(output())) EXPECT_TRUE(line["error"].is_null());
  const auto errors = json_lines(read_file(dir_ / "errors"));
  ASSERT_EQ(errors.size(), 6U);
  std::int64_t before = 0;
  for (const auto& line : errors) {
    EXPECT_GT(line["error"]["line"].get<std::int64_t>(), before);
    before = line["error"]["line"].get<std::int64_t>();
  }
}

TEST_F(JobStoreTest, EmptyInputMakesAnEmptyOutput) {
  EXPECT_EQ(run(job("\n\n")).exit_code, 0);
  EXPECT_EQ(output(), "");
  EXPECT_EQ(run(job("\n\n")).state, JobState::kFinished);
}

TEST_F(JobStoreTest, StoppedJobGoesOnWithoutSamplingATokenTwice) {
  const std::string input = fake_input(21);
  const FakeJob whole = job(input);
  const FakeResult undisturbed = run(whole);
  const std::string expected = output();
  for (int stop = 0; stop < undisturbed.num_steps; ++stop) {
    FakeJob stopped = job(input);
    stopped.options.overwrite = true;
    stopped.stop_after_steps = stop;
    const FakeResult before = run(stopped);
    ASSERT_EQ(before.exit_code, 75);
    const FakeResult after = run(whole);
    EXPECT_EQ(after.state, JobState::kResumed);
    EXPECT_EQ(before.num_sampled + after.num_sampled, undisturbed.num_sampled) << stop;
    EXPECT_EQ(output(), expected) << stop;
  }
}

TEST_F(JobStoreTest, NoFinishedLineRunsAgain) {
  FakeJob stopped = job(fake_input(21));
  stopped.stop_after_steps = 5;
  run(stopped);
  std::set<std::int64_t> finished;
  for (const auto& line : json_lines(read_file(dir_ / "out.partial"))) {
    if (!line["error"].is_null()) finished.insert(line["error"]["line"].get<std::int64_t>());
  }
  ASSERT_FALSE(finished.empty());
  const FakeResult after = run(job(fake_input(21)));
  for (const std::int64_t line : finished)
    EXPECT_FALSE(after.num_runs_of_line.contains(line)) << line;
}

TEST_F(JobStoreTest, FinishedJobSaysSoAndChangesNothing) {
  const FakeJob finished = job(fake_input(14));
  run(finished);
  const std::string expected = output();
  const std::string summary = read_file(dir_ / "out.summary.json");
  const FakeResult again = run(finished);
  EXPECT_EQ(again.exit_code, 3);
  EXPECT_EQ(again.state, JobState::kFinished);
  EXPECT_EQ(again.num_sampled, 0);
  EXPECT_EQ(output(), expected);
  EXPECT_EQ(read_file(dir_ / "out.summary.json"), summary);
  EXPECT_EQ(dir_.names(), (std::set<std::string>{"in", "out", "out.summary.json"}));
}

TEST_F(JobStoreTest, FinishedJobRefusesOtherInput) {
  const std::string input = fake_input(8);
  run(job(input));
  expect_contains(refusal(job(input + "{\"prompt\":\"new\"}\n")),
                  "give the new lines as a new job");
  expect_contains(refusal(job(fake_input(7))), "its input changed");
  std::string changed = input;
  changed[changed.find("ab")] = 'z';
  expect_contains(refusal(job(changed)), "its input changed");
}

TEST_F(JobStoreTest, FinishedJobRefusesAnotherKeyAndNamesTheOption) {
  FakeJob other = job(fake_input(8));
  run(other);
  other.options.key[0].value = "float32";
  const std::string message = refusal(other);
  expect_contains(message, "dtype was bfloat16 and is now float32");
  expect_contains(message, "--dtype bfloat16 restores it");
  other.options.overwrite = true;
  EXPECT_EQ(run(other).exit_code, 3);
}

TEST_F(JobStoreTest, UnfinishedJobRefusesAnotherKeyAndNamesTheOption) {
  FakeJob stopped = job(fake_input(8));
  stopped.stop_after_steps = 1;
  run(stopped);
  const std::string journal = read_file(dir_ / "out.journal");
  stopped.options.key[1].value = "7";
  expect_contains(refusal(stopped), "seed was 0 and is now 7 (--seed 0 restores it)");
  EXPECT_EQ(read_file(dir_ / "out.journal"), journal);
}

TEST_F(JobStoreTest, UnfinishedJobRefusesChangedAndMissingLinesByNumber) {
  const std::string input = fake_input(21);
  FakeJob stopped = job(input);
  stopped.stop_after_steps = 6;
  run(stopped);
  std::string changed = input;
  changed[changed.find("xyz") == std::string::npos ? changed.find("\"x\"") + 1 : 0] = 'w';
  expect_contains(refusal(job(changed)), "request line 2 is not the one");
  expect_contains(refusal(job("\n" + input)), "request line 2 is not the one");
  expect_contains(refusal(job(fake_input(3))), "saw request");
}

TEST_F(JobStoreTest, LinesAppendedToAnUnfinishedJobAreNewWork) {
  const std::string input = fake_input(28);
  run(job(input));
  const std::string expected = output();
  FakeJob stopped = job(fake_input(21));
  stopped.options.overwrite = true;
  stopped.stop_after_steps = 4;
  ASSERT_EQ(run(stopped).exit_code, 75);
  EXPECT_EQ(run(job(input)).exit_code, 3);
  EXPECT_EQ(output(), expected);
}

TEST_F(JobStoreTest, ForeignOutputIsNotReplaced) {
  dir_.write("out", "precious\n");
  expect_contains(refusal(job(fake_input(3))), "--overwrite replaces it");
  EXPECT_EQ(output(), "precious\n");
  EXPECT_EQ(dir_.names(), (std::set<std::string>{"in", "out"}));
}

TEST_F(JobStoreTest, AnswersWithoutTheirJournalAreNotLost) {
  std::filesystem::create_directory(dir_ / "journals");
  FakeJob stopped = job(fake_input(8));
  stopped.options.paths.journal_dir = dir_ / "journals";
  stopped.stop_after_steps = 3;
  run(stopped);
  const std::string partial = read_file(dir_ / "out.partial");
  ASSERT_FALSE(partial.empty());
  expect_contains(refusal(job(fake_input(8))), "--journal-dir");
  EXPECT_EQ(read_file(dir_ / "out.partial"), partial);
}

TEST_F(JobStoreTest, ChangedOutputOfAFinishedJobIsNoticed) {
  run(job(fake_input(8)));
  std::ofstream(dir_ / "out", std::ios::app) << "more\n";
  expect_contains(refusal(job(fake_input(8))), "its summary says");
  std::filesystem::remove(dir_ / "out");
  expect_contains(refusal(job(fake_input(8))), "it is missing");
}

TEST_F(JobStoreTest, BadPathsAreRefused) {
  FakeJob bad = job(fake_input(3));
  bad.options.paths.output = dir_ / "nowhere/out";
  expect_contains(refusal(bad), "is not a directory");
  bad.options.paths.output = dir_.path().string();
  expect_contains(refusal(bad), "is not a regular file");
  bad.options.paths.output = dir_ / "out";
  bad.options.paths.error_file = dir_ / "out";
  expect_contains(refusal(bad), "--error-file");
  bad.options.paths.error_file.clear();
  bad.options.paths.journal_dir = dir_ / "nowhere";
  expect_contains(refusal(bad), "--journal-dir");
}

TEST_F(JobStoreTest, SecondJobOnAnOutputIsRefusedNamingTheOwner) {
  const JobStore owner(job(fake_input(3)).options);
  const std::string message = refusal(job(fake_input(3)));
  expect_contains(message, "process " + std::to_string(::getpid()) + " on ");
  const JobInspection inspection = inspect_job(job(fake_input(3)).options.paths);
  ASSERT_TRUE(inspection.owner.has_value());
  EXPECT_EQ(inspection.exit_code(), 75);
}

TEST_F(JobStoreTest, LockOfADeadOwnerIsTakenOver) {
  dir_.write("out.lock", "{\"host\":\"elsewhere\",\"pid\":1,\"start\":0}\n");
  EXPECT_EQ(run(job(fake_input(3))).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out.lock"));
}

TEST_F(JobStoreTest, RetryRunsFailedLinesOnly) {
  FakeJob once = job(fake_input(14));
  run(once);
  const std::string expected = output();
  FakeJob failing = once;
  failing.options.overwrite = true;
  failing.fail_all = true;
  run(failing);
  // Three of the failed lines were answered meanwhile: only the rest runs.
  FakeJob retry = once;
  retry.options.retry_failed = true;
  const FakeResult first = run(retry);
  EXPECT_EQ(first.num_runs_of_line.size(), 14U);
  EXPECT_EQ(output(), expected);
  const FakeResult second = run(retry);
  EXPECT_EQ(second.num_runs_of_line.size(), 6U);
  EXPECT_EQ(second.num_sampled, 0);
  EXPECT_EQ(output(), expected);
  const auto summary = nlohmann::json::parse(read_file(dir_ / "out.summary.json"));
  EXPECT_EQ(summary["answered"], 8);
  EXPECT_EQ(summary["failed"], 6);
}

TEST_F(JobStoreTest, RetryOfAnUnfinishedJobTakesItsFailedLinesOnce) {
  FakeJob failing = job(fake_input(14));
  run(failing);
  const std::string expected = output();
  failing.options.overwrite = true;
  failing.fail_all = true;
  failing.stop_after_steps = 0;
  failing.max_active = 100;
  // All lines fail at once; a crash before the completion leaves them in the journal.
  FaultyFileOps counting(Fault::kNone, 0);
  failing.stop_after_steps = -1;
  run_fake_job(failing, counting);
  int journal_left = 0;
  for (int at = counting.num_operations(); at > 0 && journal_left == 0; --at) {
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyFileOps files(Fault::kKillBefore, at);
      run_fake_job(failing, files);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (std::filesystem::exists(dir_ / "out.journal")) journal_left = at;
  }
  ASSERT_GT(journal_left, 0);
  FakeJob retry = job(fake_input(14));
  retry.options.retry_failed = true;
  EXPECT_EQ(run(retry).num_runs_of_line.size(), 14U);
  EXPECT_EQ(output(), expected);
}

TEST_F(JobStoreTest, RetryNeedsTheErrorFileThatTheJobHad) {
  FakeJob apart = job(fake_input(8));
  apart.options.paths.error_file = dir_ / "errors";
  run(apart);
  FakeJob retry = job(fake_input(8));
  retry.options.retry_failed = true;
  expect_contains(refusal(retry), "give --error-file");
}

TEST_F(JobStoreTest, FirstStartIsTheTemplatesDateEverAfter) {
  FakeJob stopped = job(fake_input(8));
  stopped.stop_after_steps = 1;
  run(stopped);
  stopped.options.start_s = 999999;
  EXPECT_EQ(JobStore(stopped.options).first_start_s(), 1000);
  run(job(fake_input(8)));
  EXPECT_EQ(JobStore(stopped.options).first_start_s(), 1000);
}

TEST_F(JobStoreTest, CountersComeBack) {
  const JobOptions options = job(fake_input(3)).options;
  {
    JobStore store(options);
    EXPECT_TRUE(store.counters().empty());
    store.set_counters({{"elapsed_s", 1.5}});
    store.set_counters({{"elapsed_s", 2.5}});
    store.flush();
  }
  EXPECT_EQ(JobStore(options).counters().at("elapsed_s"), 2.5);
}

TEST_F(JobStoreTest, TokensComeBackBitForBit) {
  const JobOptions options = job(fake_input(3)).options;
  InputLine line;
  line.number = 1;
  line.hash = 42;
  std::vector<ScoredToken> tokens = {{7, -0.1F, 3, {{1, -0.25F}, {2, -1e-30F}}},
                                     {8, -std::numeric_limits<float>::denorm_min(), 1, {}},
                                     {9, -std::numeric_limits<float>::infinity(), 2, {}}};
  {
    JobStore store(options);
    store.begin_line(line);
    store.add_tokens({0, 2, 0}, std::span(tokens).first(1));
    store.flush();
    store.add_tokens({0, 2, 1}, std::span(tokens).subspan(1));
    store.flush();
  }
  JobStore store(options);
  EXPECT_EQ(store.begin_line(line), LineState::kStarted);
  const SavedTokens saved = store.take_saved(0);
  ASSERT_EQ(saved.size(), 3U);
  EXPECT_TRUE(saved[0].empty());
  ASSERT_EQ(saved[2].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(saved[2][i].token, tokens[i].token);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(saved[2][i].logprob),
              std::bit_cast<std::uint32_t>(tokens[i].logprob));
    EXPECT_EQ(saved[2][i].rank, tokens[i].rank);
    EXPECT_EQ(saved[2][i].top, tokens[i].top);
  }
}

TEST_F(JobStoreTest, WritesEveryQuarterSecondAndSyncsEverySecond) {
  class Watch final : public FileOps {
   public:
    void write(const File& file, std::string_view bytes,
               const std::filesystem::path& path) override {
      log += path.extension().string() == ".partial" ? 'p' : 'j';
      FileOps::write(file, bytes, path);
    }
    void sync(const File& file, const std::filesystem::path& path) override {
      log += path.extension().string() == ".partial" ? 'P' : 'J';
      FileOps::sync(file, path);
    }
    std::string log;
  } watch;
  JobStore store(job(fake_input(3)).options, watch);
  for (int i = 0; i < 3; ++i) {
    InputLine line;
    line.ordinal = i;
    line.number = i + 1;
    store.begin_line(line);
  }
  watch.log.clear();
  store.tick(100.0);
  const ScoredToken token{1, -1.0F, 1, {}};
  store.add_tokens({0, 0, 0}, std::span(&token, 1));
  store.tick(100.24);
  EXPECT_EQ(watch.log, "");
  store.tick(100.26);
  EXPECT_EQ(watch.log, "j");
  store.finish_line({1, true}, "{}");
  store.tick(100.6);
  EXPECT_EQ(watch.log, "jpj");
  store.tick(101.1);
  EXPECT_EQ(watch.log, "jpjPJ");
  store.tick(103.0);
  EXPECT_EQ(watch.log, "jpjPJ");
}

TEST_F(JobStoreTest, JournalStaysSmallWhileTokensPass) {
  JobOptions options = job(fake_input(3)).options;
  options.compact_bytes = 4096;
  FaultyFileOps files(Fault::kNone, 0);
  JobStore store(options, files);
  const ScoredToken token{1, -1.0F, 1, {}};
  std::uintmax_t largest = 0;
  for (int i = 0; i < 2000; ++i) {
    InputLine line;
    line.ordinal = i;
    line.number = i + 1;
    store.begin_line(line);
    for (int k = 0; k < 20; ++k) {
      store.add_tokens({i, 0, k}, std::span(&token, 1));
      store.tick(20.0 * i + k);
    }
    store.finish_line({i, true, 1, 20}, "{\"line\":" + std::to_string(i) + "}");
    largest = std::max(largest, std::filesystem::file_size(dir_ / "out.journal"));
  }
  // 2,000 finished lines of 61 bytes are live; without compaction there would be 2.3 MB of tokens.
  EXPECT_LT(largest, 2U * 2000 * 70 + 2 * 4096);
  store.complete({});
  EXPECT_EQ(json_lines(output()).size(), 2000U);
  EXPECT_EQ(json_lines(output())[1234]["line"], 1234);
}

TEST_F(JobStoreTest, MisuseIsAnErrorAndNotADamagedJob) {
  JobStore store(job(fake_input(3)).options);
  InputLine line;
  line.number = 1;
  store.begin_line(line);
  const ScoredToken token{1, -1.0F, 1, {}};
  EXPECT_THROW(store.begin_line(line), std::logic_error);
  EXPECT_THROW(store.finish_line({5, true}, "{}"), std::logic_error);
  store.add_tokens({0, 0, 0}, std::span(&token, 1));
  EXPECT_THROW(store.add_tokens({0, 0, 3}, std::span(&token, 1)), std::logic_error);
  EXPECT_THROW(store.complete({}), std::logic_error);
  store.finish_line({0, true}, "{}");
  EXPECT_THROW(store.finish_line({0, true}, "{}"), std::logic_error);
  EXPECT_THROW(store.add_tokens({0, 0, 1}, std::span(&token, 1)), std::logic_error);
  store.complete({});
  EXPECT_EQ(output(), "{}\n");
}

TEST_F(JobStoreTest, LongLinesAndManyMakeOneOrderedOutput) {
  JobStore store(job(fake_input(3)).options);
  std::string expected;
  const int num_lines = 40;
  const auto text = [](int i) {
    return "{\"line\":" + std::to_string(i) + ",\"x\":\"" +
           std::string(static_cast<std::size_t>(i % 5) * 1000000, 'x') + "\"}";
  };
  for (int i = 0; i < num_lines; ++i) {
    InputLine line;
    line.ordinal = i;
    line.number = i + 1;
    store.begin_line(line);
    expected += text(i) + "\n";
  }
  for (int i = 0; i < num_lines; ++i) {
    const int line = (i * 17 + 5) % num_lines;
    store.finish_line({line, true}, text(line));
  }
  store.complete({});
  EXPECT_EQ(output(), expected);
}

TEST_F(JobStoreTest, InspectionTellsTheFourStates) {
  FakeJob stopped = job(fake_input(7));
  const JobPaths& paths = stopped.options.paths;
  EXPECT_EQ(inspect_job(paths).exit_code(), 2);
  stopped.stop_after_steps = 3;
  run(stopped);
  const JobInspection resumable = inspect_job(paths);
  EXPECT_EQ(resumable.exit_code(), 75);
  EXPECT_EQ(resumable.key.size(), 2U);
  EXPECT_FALSE(resumable.owner.has_value());
  run(job(fake_input(7)));
  const JobInspection failed = inspect_job(paths);
  EXPECT_EQ(failed.exit_code(), 3);
  EXPECT_EQ(failed.counts.num_failed, 3);
  FakeJob good = job(fake_input(3));
  good.options.overwrite = true;
  run(good);
  EXPECT_EQ(inspect_job(paths).exit_code(), 0);
  dir_.write("out", "");
  EXPECT_EQ(inspect_job(paths).exit_code(), 2);
}

}  // namespace
}  // namespace headrace
