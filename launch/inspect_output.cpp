#include <fmt/format.h>

#include <fstream>
#include <optional>

#include "launch/answers_file.h"
#include "launch/exit_codes.h"
#include "launch/inspect.h"
#include "runtime/job/job_store.h"
#include "runtime/job/job_summary.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using Status = JobInspection::Status;

struct LineCounts {
  std::int64_t answered = 0;
  std::int64_t failed = 0;
};

/// Throws std::invalid_argument naming the first line that is not an output's.
LineCounts count_lines(const std::string& output) {
  LineCounts counts;
  AnswersFile file(output);
  while (const auto answer = file.next()) ++(answer->failed() ? counts.failed : counts.answered);
  return counts;
}

std::string state_text(Status status) {
  switch (status) {
    case Status::kResumable:
      return "unfinished; the same command goes on with it";
    case Status::kComplete:
      return "complete";
    case Status::kCompleteWithFailures:
      return "complete, with failed requests";
    case Status::kNotAJob:
      break;
  }
  return "not a job";
}

ordered_json files_of(const JobPaths& paths) {
  ordered_json files = ordered_json::object();
  for (const std::string& path : paths.all()) {
    std::error_code error;
    if (path.empty() || !fs::is_regular_file(path, error)) continue;
    files[path] = fmt::format("{} bytes", fs::file_size(path, error));
  }
  return files;
}

void add_job_facts(const JobInspection& job, const JobPaths& paths, Findings& findings) {
  ordered_json& facts = findings.facts;
  facts["output"] = paths.output;
  facts["state"] = state_text(job.status);
  facts["resumable"] = job.status == Status::kResumable;
  facts["answered"] = job.counts.num_answered;
  facts["failed"] = job.counts.num_failed;
  facts["prompt_tokens"] = job.counts.num_prompt_tokens;
  facts["completion_tokens"] = job.counts.num_completion_tokens;
  facts["running"] = job.owner ? *job.owner : "no";
  for (const JobKeyPart& part : job.key) facts["job_key"][part.name] = part.value;
  facts["files"] = files_of(paths);
}

/// What only the summary of a finished job knows.
void add_summary_facts(const JobPaths& paths, ordered_json& facts) {
  std::ifstream file(paths.summary());
  const auto summary = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"input", "error_file", "layout", "wall_s", "output_tokens_per_s"}) {
    const auto value = summary.find(key);
    if (value == summary.end()) continue;
    const bool unused = value->is_string() && value->get_ref<const std::string&>().empty();
    if (!unused) facts[key] = *value;
  }
}

/// The summary's word against the lines themselves.
void verify_lines(const JobPaths& paths, Findings& findings) {
  const JobSummary summary = read_summary(paths.summary());
  LineCounts counts = count_lines(paths.output);
  if (!summary.error_file.empty()) {
    const LineCounts errors = count_lines(summary.error_file);
    counts.answered += errors.answered;
    counts.failed += errors.failed;
  }
  const JobCounts& told = summary.counts;
  if (counts.failed == told.num_failed && counts.answered == told.num_answered) return;
  findings.problem(fmt::format("{} answers and {} failures are there; the summary says {} and {}",
                               counts.answered, counts.failed, told.num_answered, told.num_failed));
}

/// Why this is not a job's output, with what may help.
std::string problem_text(const JobInspection& job, const JobPaths& paths) {
  const bool unfinished = fs::exists(paths.partial()) && !fs::exists(paths.journal());
  if (!unfinished) return fmt::format("{}: {}", paths.output, job.problem);
  return fmt::format(
      "{}: there is no journal {}; a job that keeps it elsewhere needs its --journal-dir",
      paths.output, paths.journal());
}

/// An output without any file of a job beside it, which another program or an earlier copy left.
void inspect_lone_output(const std::string& output, Findings& findings) {
  const LineCounts counts = count_lines(output);
  findings.facts["output"] = output;
  findings.facts["state"] =
      state_text(counts.failed > 0 ? Status::kCompleteWithFailures : Status::kComplete);
  findings.facts["answered"] = counts.answered;
  findings.facts["failed"] = counts.failed;
  findings.facts["summary"] = "none";
  findings.exit_code = counts.failed > 0 ? kExitPartialFailure : kExitSuccess;
}

}  // namespace

Findings inspect_output(const std::string& output, const InspectOptions& options) {
  Findings findings;
  findings.kind = "output of a job";
  const JobPaths paths{.output = output, .error_file = "", .journal_dir = options.journal_dir};
  const JobInspection job = inspect_job(paths);
  const bool complete =
      job.status == Status::kComplete || job.status == Status::kCompleteWithFailures;
  try {
    if (job.status == Status::kNotAJob && fs::exists(output) && !fs::exists(paths.summary())) {
      inspect_lone_output(output, findings);
      return findings;
    }
    add_job_facts(job, paths, findings);
    findings.exit_code = job.exit_code();
    if (job.status == Status::kNotAJob) findings.problem(problem_text(job, paths));
    if (complete) add_summary_facts(paths, findings.facts);
    if (complete && options.verify) verify_lines(paths, findings);
  } catch (const std::invalid_argument& e) {
    findings.problem(e.what());
  }
  return findings;
}

}  // namespace headrace
