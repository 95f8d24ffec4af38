#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "runtime/job/job_lock.h"
#include "runtime/job/job_store.h"
#include "runtime/job/job_summary.h"
#include "runtime/job/journal.h"

namespace headrace {
namespace {

using Status = JobInspection::Status;

// Trusts the journal about OUTPUT.partial: a resume checks that.
void inspect_journal(const std::string& path, JobInspection& inspection) {
  bool first = true;
  scan_journal(open_read(path), path, [&](std::string_view payload) {
    const JournalRecord record = decode_payload(payload);
    if (const auto* header = std::get_if<JournalHeader>(&record)) inspection.key = header->key;
    if (first && inspection.key.empty()) throw std::invalid_argument("it has no header");
    first = false;
    const auto* finished = std::get_if<FinishedRecord>(&record);
    if (finished == nullptr) return;
    JobCounts& counts = inspection.counts;
    ++(finished->answered ? counts.num_answered : counts.num_failed);
    counts.num_prompt_tokens += finished->num_prompt_tokens;
    counts.num_completion_tokens += finished->num_completion_tokens;
  });
  if (first) throw std::invalid_argument("it has no header");
  inspection.status = Status::kResumable;
}

void inspect_summary(const JobPaths& paths, JobInspection& inspection) {
  const JobSummary summary = read_summary(paths.summary());
  const auto size = std::filesystem::file_size(paths.output);
  if (static_cast<std::int64_t>(size) != summary.output_bytes) {
    throw std::invalid_argument(
        fmt::format("it has {} bytes, its summary says {}", size, summary.output_bytes));
  }
  inspection.key = summary.key;
  inspection.counts = summary.counts;
  inspection.status =
      summary.counts.num_failed > 0 ? Status::kCompleteWithFailures : Status::kComplete;
}

}  // namespace

int JobInspection::exit_code() const {
  switch (status) {
    case Status::kComplete:
      return 0;
    case Status::kCompleteWithFailures:
      return 3;
    case Status::kResumable:
      return 75;
    case Status::kNotAJob:
      return 2;
  }
  return 2;
}

JobInspection inspect_job(const JobPaths& paths) {
  JobInspection inspection;
  inspection.owner = lock_owner(paths.lock());
  try {
    if (std::filesystem::exists(paths.journal())) {
      inspect_journal(paths.journal(), inspection);
    } else if (std::filesystem::exists(paths.summary())) {
      inspect_summary(paths, inspection);
    } else {
      inspection.problem = "neither a journal nor a summary is there";
    }
  } catch (const std::exception& error) {
    inspection.status = Status::kNotAJob;
    inspection.problem = error.what();
  }
  return inspection;
}

}  // namespace headrace
