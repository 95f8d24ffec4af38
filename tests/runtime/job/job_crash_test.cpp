// Whatever operation a job is killed at, the same command ends with the same bytes.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "fake_job.h"
#include "faulty_file_ops.h"
#include "temporary_directory.h"

namespace headrace {
namespace {

struct Scenario {
  bool error_file = false;
  bool journal_dir = false;
  bool compact = false;
};

class JobCrash : public ::testing::TestWithParam<int> {
 protected:
  static FakeJob job_in(const TemporaryDirectory& dir, const Scenario& scenario) {
    FakeJob job;
    job.inputs = {dir / "in"};
    job.options.paths.output = dir / "out";
    if (scenario.error_file) job.options.paths.error_file = dir / "errors";
    if (scenario.journal_dir) {
      std::filesystem::create_directory(dir / "journals");
      job.options.paths.journal_dir = dir / "journals";
    }
    job.options.compact_bytes = scenario.compact ? 1 : 1U << 20;
    job.options.key = {{"dtype", "bfloat16", "--dtype bfloat16"}};
    job.options.start_s = 1000;
    return job;
  }

  static Scenario scenario() {
    return {(GetParam() & 1) != 0, (GetParam() & 2) != 0, (GetParam() & 4) != 0};
  }
};

// Runs the job in a process of its own; returns how it ended.
int run_child(const FakeJob& job, Fault fault, int at) {
  const pid_t child = ::fork();
  if (child == 0) {
    FaultyFileOps files(fault, at);
    try {
      ::_exit(run_fake_job(job, files).exit_code);
    } catch (const std::system_error&) {
      ::_exit(1);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Expected {
  std::string output;
  std::string errors;
  std::set<std::string> names;
  int num_operations = 0;
};

Expected run_undisturbed(const FakeJob& job, const TemporaryDirectory& dir) {
  FaultyFileOps files(Fault::kNone, 0);
  EXPECT_EQ(run_fake_job(job, files).exit_code, 3);
  Expected expected{read_file(dir / "out"), read_file(dir / "errors"), dir.names(),
                    files.num_operations()};
  EXPECT_TRUE(expected.names.contains("out.summary.json"));
  return expected;
}

void clear(const TemporaryDirectory& dir) {
  for (const std::string& name : dir.names()) {
    if (name != "in" && name != "journals") std::filesystem::remove(dir / name);
  }
  if (std::filesystem::exists(dir / "journals")) {
    for (const auto& entry : std::filesystem::directory_iterator(dir / "journals")) {
      std::filesystem::remove(entry.path());
    }
  }
}

void expect_same(const TemporaryDirectory& dir, const Expected& expected) {
  EXPECT_EQ(read_file(dir / "out"), expected.output);
  EXPECT_EQ(read_file(dir / "errors"), expected.errors);
  EXPECT_EQ(dir.names(), expected.names);
  if (std::filesystem::exists(dir / "journals")) {
    EXPECT_TRUE(std::filesystem::is_empty(dir / "journals"));
  }
}

TEST_P(JobCrash, AtEveryOperationThenTheSameCommandCompletes) {
  TemporaryDirectory dir;
  dir.write("in", fake_input(16));
  const FakeJob job = job_in(dir, scenario());
  const Expected expected = run_undisturbed(job, dir);
  ASSERT_GT(expected.num_operations, 30);
  for (const Fault fault : {Fault::kKillBefore, Fault::kKillTorn, Fault::kError}) {
    for (int at = 1; at <= expected.num_operations; ++at) {
      SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault) << " at " << at);
      clear(dir);
      const int ended = run_child(job, fault, at);
      ASSERT_TRUE(ended == FaultyFileOps::kKilled || ended == 1) << ended;
      ASSERT_EQ(run_child(job, Fault::kNone, 0), 3);
      expect_same(dir, expected);
      if (HasFailure()) return;
    }
  }
}

TEST_P(JobCrash, AgainAndAgainThenItStillCompletes) {
  TemporaryDirectory dir;
  dir.write("in", fake_input(16));
  const FakeJob job = job_in(dir, scenario());
  const Expected expected = run_undisturbed(job, dir);
  // Killed every k operations: short lives make little progress, but each resume must stand the
  // next.
  for (int k = 12; k <= expected.num_operations; k += 5) {
    SCOPED_TRACE(testing::Message() << "every " << k);
    clear(dir);
    int ended = FaultyFileOps::kKilled;
    int lives = 0;
    for (; ended == FaultyFileOps::kKilled && lives < 200; ++lives) {
      ended =
          run_child(job, lives % 2 == 0 ? Fault::kKillTorn : Fault::kKillBefore, k + lives / 20);
    }
    ASSERT_EQ(ended, 3) << lives;
    expect_same(dir, expected);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, JobCrash, ::testing::Values(0, 1, 3, 4, 7));

TEST(JobCrashRetry, AtEveryOperationOfARetryThenTheSameCommandCompletes) {
  for (const bool apart : {false, true}) {
    TemporaryDirectory dir;
    dir.write("in", fake_input(9));
    FakeJob job;
    job.inputs = {dir / "in"};
    job.options.paths.output = dir / "out";
    if (apart) job.options.paths.error_file = dir / "errors";
    const FakeJob whole = job;
    const Expected expected = run_undisturbed(whole, dir);
    // The same job, all of whose lines failed once.
    FakeJob failing = job;
    failing.fail_all = true;
    FakeJob retry = job;
    retry.options.retry_failed = true;
    const auto prepare = [&] {
      clear(dir);
      ASSERT_EQ(run_child(failing, Fault::kNone, 0), 3);
      ASSERT_NE(read_file(dir / "out"), expected.output);
    };
    prepare();
    FaultyFileOps counting(Fault::kNone, 0);
    ASSERT_EQ(run_fake_job(retry, counting).exit_code, 3);
    expect_same(dir, expected);
    for (int at = 1; at <= counting.num_operations(); ++at) {
      SCOPED_TRACE(testing::Message() << "at " << at << " apart " << apart);
      prepare();
      ASSERT_EQ(run_child(retry, Fault::kKillTorn, at), FaultyFileOps::kKilled);
      ASSERT_EQ(run_child(retry, Fault::kNone, 0), 3);
      expect_same(dir, expected);
      if (HasFailure()) return;
    }
  }
}

TEST(JobCrashOverwrite, AtEveryOperationLeavesTheOldAnswersOrTheNew) {
  TemporaryDirectory dir;
  dir.write("in", fake_input(6));
  FakeJob job;
  job.inputs = {dir / "in"};
  job.options.paths.output = dir / "out";
  const Expected expected = run_undisturbed(job, dir);
  FakeJob again = job;
  again.options.overwrite = true;
  FaultyFileOps counting(Fault::kNone, 0);
  ASSERT_EQ(run_fake_job(again, counting).exit_code, 3);
  for (int at = 1; at <= counting.num_operations(); ++at) {
    SCOPED_TRACE(testing::Message() << "at " << at);
    ASSERT_EQ(run_child(again, Fault::kKillBefore, at), FaultyFileOps::kKilled);
    EXPECT_EQ(read_file(dir / "out"), expected.output);
    ASSERT_EQ(run_child(again, Fault::kNone, 0), 3);
    expect_same(dir, expected);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace headrace
