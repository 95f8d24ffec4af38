#include <fmt/format.h>

#include <fstream>
#include <optional>

#include "launch/answers_file.h"
#include "launch/exit_codes.h"
#include "launch/inspect.h"
#include "runtime/job/job_store.h"

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

/// The summary's word against the lines themselves.
void verify_lines(const JobInspection& job, const std::string& output, Findings& findings) {
  const LineCounts counts = count_lines(output);
  if (counts.failed != job.counts.num_failed || counts.answered != job.counts.num_answered) {
    findings.problem(fmt::format("{} holds {} answers and {} failures; its summary says {} and {}",
                                 output, counts.answered, counts.failed, job.counts.num_answered,
                                 job.counts.num_failed));
  }
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
    if (job.status == Status::kNotAJob) findings.problem(job.problem);
    if (complete && options.verify) verify_lines(job, output, findings);
  } catch (const std::invalid_argument& e) {
    findings.problem(e.what());
  }
  return findings;
}

}  // namespace headrace
