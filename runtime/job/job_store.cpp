#include "runtime/job/job_store.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/job/custom_ids.h"
#include "runtime/job/job_lock.h"
#include "runtime/job/job_run.h"
#include "runtime/job/job_summary.h"
#include "runtime/job/output_merge.h"
#include "runtime/job/retry_seed.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// Written four times a second, durable every second: what DESIGN promises a kill may cost.
constexpr double kWriteInterval_s = 0.25;
constexpr double kSyncInterval_s = 1.0;

fs::path directory_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

std::string temporary(const std::string& path) {
  return path + ".tmp";
}

void check_target(const char* option, const std::string& path) {
  if (path.empty()) throw std::invalid_argument(fmt::format("{}: is empty", option));
  if (!fs::is_directory(directory_of(path))) {
    throw std::invalid_argument(
        fmt::format("{} {}: {} is not a directory", option, path, directory_of(path).string()));
  }
  if (fs::exists(path) && !fs::is_regular_file(path)) {
    throw std::invalid_argument(fmt::format("{} {}: is not a regular file", option, path));
  }
}

void check_paths(const JobPaths& paths) {
  check_target("--output", paths.output);
  if (!paths.error_file.empty()) check_target("--error-file", paths.error_file);
  if (!paths.journal_dir.empty() && !fs::is_directory(paths.journal_dir)) {
    throw std::invalid_argument(
        fmt::format("--journal-dir {}: is not a directory", paths.journal_dir));
  }
  const std::array own = {paths.output, paths.partial(), paths.lock(), paths.summary(),
                          paths.journal()};
  for (const std::string& path : own) {
    if (path == paths.error_file) {
      throw std::invalid_argument(
          fmt::format("--error-file {}: the job needs this file for itself", paths.error_file));
    }
  }
}

bool has_bytes(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return !error && size > 0;
}

void check_size(const std::string& path, std::int64_t expected) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (!error && static_cast<std::int64_t>(size) == expected) return;
  throw std::invalid_argument(
      fmt::format("{}: its summary says {} bytes, {}; --overwrite starts afresh", path, expected,
                  error ? "but it is missing" : fmt::format("it has {}", size)));
}

}  // namespace

std::string JobPaths::journal() const {
  if (journal_dir.empty()) return output + ".journal";
  return (fs::path(journal_dir) / (fs::path(output).filename().string() + ".journal")).string();
}

std::vector<std::string> JobPaths::all() const {
  std::vector<std::string> paths = {output,    partial(), lock(),
                                    summary(), journal(), temporary(output)};
  if (!error_file.empty()) paths.push_back(error_file);
  return paths;
}

struct JobStore::State {
  State(JobOptions given, FileOps& ops)
      : options(std::move(given)),
        files(ops),
        key_hash(hash_of(options.key)),
        arena(directory_of(options.paths.journal()), options.index_memory_bytes),
        custom_ids(arena) {}

  JobRun::Place place() { return {options.paths, files, options.compact_bytes}; }
  void open();
  void open_finished();
  void open_fresh();
  void resume();
  void remove_traces();
  void sweep();
  void end_finished_input() const;
  [[noreturn]] void refuse_finished_input(std::string_view what) const;
  JobSummary publish(const nlohmann::ordered_json& details);
  void restart_input() {
    num_read = 0;
    input_hash = {};
  }

  JobOptions options;
  FileOps& files;
  Hash128 key_hash;
  SpillArena arena;
  CustomIds custom_ids;
  std::optional<JobLock> lock;
  JobState state = JobState::kNew;
  std::optional<JobRun> run;           // kNew, kResumed
  std::optional<JobSummary> finished;  // kFinished
  std::int64_t num_read = 0;
  ChainHash input_hash;
  std::optional<double> last_write_s;
  double last_sync_s = 0.0;
};

// JOURNAL.md lists the states. A journal means: unfinished, whatever else is there.
void JobStore::State::open() {
  check_paths(options.paths);
  lock = JobLock::acquire(options.paths.lock(), options.start_s, files);
  if (options.overwrite) {
    remove_traces();
    open_fresh();
  } else if (fs::exists(options.paths.journal())) {
    resume();
    if (options.retry_failed) run->drop_failed();
  } else if (fs::exists(options.paths.summary())) {
    open_finished();
  } else {
    open_fresh();
  }
}

void JobStore::State::resume() {
  run = JobRun::resume(place(), arena, options.key);
  state = JobState::kResumed;
}

// --overwrite: an output without a summary is nobody's, so the summary goes first.
void JobStore::State::remove_traces() {
  files.remove(options.paths.summary());
  files.sync_directory(directory_of(options.paths.output));
  files.remove(options.paths.journal());
  files.sync_directory(directory_of(options.paths.journal()));
  files.remove(options.paths.partial());
}

void JobStore::State::open_fresh() {
  const JobPaths& paths = options.paths;
  if (!options.overwrite) {
    for (const std::string& path : {paths.output, paths.error_file}) {
      if (path.empty() || !fs::exists(path)) continue;
      throw std::invalid_argument(fmt::format(
          "{}: exists and no job's summary is beside the output; --overwrite replaces it", path));
    }
    if (has_bytes(paths.partial())) {
      throw std::invalid_argument(fmt::format(
          "{}: holds answers, but {} is missing; give the --journal-dir of that run, or "
          "--overwrite to start afresh",
          paths.partial(), paths.journal()));
    }
  }
  run = JobRun::start(place(), arena, {options.key, options.start_s, false});
  state = JobState::kNew;
}

void JobStore::State::open_finished() {
  const JobPaths& paths = options.paths;
  JobSummary summary = read_summary(paths.summary());
  const std::string difference = describe_difference(summary.key, options.key);
  if (!difference.empty()) {
    throw std::invalid_argument(
        fmt::format("{}: the finished job was another one: {}; --overwrite starts afresh",
                    paths.summary(), difference));
  }
  check_size(paths.output, summary.output_bytes);
  sweep();
  finished = std::move(summary);
  state = JobState::kFinished;
}

// Removes what no finished job has: leftovers of a kill.
void JobStore::State::sweep() {
  for (const std::string& path : {options.paths.partial(), options.paths.journal()}) {
    files.remove(path);
    files.remove(temporary(path));
  }
}

void JobStore::State::refuse_finished_input(std::string_view what) const {
  throw std::invalid_argument(
      fmt::format("{}: the job is finished, {}", options.paths.output, what));
}

void JobStore::State::end_finished_input() const {
  if (num_read == finished->num_lines && input_hash.value() == finished->input_hash) return;
  refuse_finished_input(fmt::format(
      "but its input changed: it had {} requests, now {}, or others; --overwrite starts "
      "afresh",
      finished->num_lines, num_read));
}

JobStore::JobStore(JobOptions options, FileOps& files)
    : state_(std::make_unique<State>(std::move(options), files)) {
  state_->open();
}

JobStore::~JobStore() = default;
JobStore::JobStore(JobStore&&) noexcept = default;
JobStore& JobStore::operator=(JobStore&&) noexcept = default;

JobState JobStore::state() const {
  return state_->state;
}
Hash128 JobStore::job_key() const {
  return state_->key_hash;
}

std::int64_t JobStore::first_start_s() const {
  return state_->run ? state_->run->header().first_start_s : state_->finished->first_start_s;
}

const JobCounts& JobStore::counts() const {
  return state_->run ? state_->run->counts() : state_->finished->counts;
}

std::string JobStore::found() const {
  const JobCounts& sums = counts();
  if (state_->state == JobState::kNew) return {};
  if (state_->state == JobState::kFinished) {
    return fmt::format("{} is finished: {} answered, {} failed", state_->options.paths.output,
                       sums.num_answered, sums.num_failed);
  }
  const JobRun& run = *state_->run;
  std::string text = fmt::format("resumed: {} answered, {} failed, {} begun with {} tokens saved",
                                 sums.num_answered, sums.num_failed, run.num_saved_lines(),
                                 run.num_saved_tokens());
  if (run.num_lost() > 0) {
    text +=
        fmt::format(", {} answers lost with the machine and to be computed again", run.num_lost());
  }
  return text;
}

void JobStore::reopen_failed(InputReader& input) {
  State& state = *state_;
  if (state.state != JobState::kFinished) throw std::logic_error("only a finished job is reopened");
  const JobPaths& paths = state.options.paths;
  check_size(paths.output, state.finished->output_bytes);
  if (!state.finished->error_file.empty()) {
    if (paths.error_file.empty()) {
      throw std::invalid_argument(
          fmt::format("--retry-failed: the job's failed lines are in a file of their own; give "
                      "--error-file {}",
                      state.finished->error_file));
    }
  }
  RetrySeed seed(paths, state.files, {state.options.key, state.finished->first_start_s, true});
  InputLine line;
  while (input.next(line)) {
    begin_line(line, input.place(line));
    seed.add(line);
  }
  end_input();
  seed.publish();
  state.finished.reset();
  state.restart_input();
  state.resume();
}

LineState JobStore::begin_line(const InputLine& line, const std::string& place) {
  State& state = *state_;
  if (line.ordinal != state.num_read) {
    throw std::logic_error(
        fmt::format("request {} read where {} was due", line.ordinal, state.num_read));
  }
  if (state.finished && state.num_read == state.finished->num_lines) {
    if (state.input_hash.value() == state.finished->input_hash) {
      state.refuse_finished_input("and its input has new lines; give the new lines as a new job");
    }
    state.end_finished_input();
  }
  ++state.num_read;
  state.input_hash.add(line.hash);
  return state.finished ? LineState::kFinished : state.run->begin_line(line, place);
}

bool JobStore::claim_custom_id(std::string_view custom_id) {
  return state_->custom_ids.insert(custom_id);
}

void JobStore::end_input() {
  const State& state = *state_;
  if (state.finished) return state.end_finished_input();
  const std::int64_t known = state.run->lines().size();
  if (known <= state.num_read) return;
  throw std::invalid_argument(fmt::format(
      "input: {} requests, but an earlier run saw request {}; restore the missing lines, or "
      "--overwrite starts afresh",
      state.num_read, known));
}

SavedTokens JobStore::take_saved(std::int64_t ordinal) {
  return state_->run->take_saved(ordinal);
}

void JobStore::add_tokens(const TokenDelta& delta, std::span<const ScoredToken> tokens) {
  state_->run->add_tokens(delta, tokens);
}

void JobStore::finish_line(const FinishedLine& finished, std::string_view output_line) {
  state_->run->finish_line(finished, output_line);
}

void JobStore::set_counters(const nlohmann::json& counters) {
  state_->run->set_counters(counters.dump());
}

nlohmann::json JobStore::counters() const {
  return nlohmann::json::parse(state_->run->counters());
}

void JobStore::tick(double now_s) {
  State& state = *state_;
  if (!state.last_write_s) {
    state.last_write_s = now_s;
    state.last_sync_s = now_s;
  }
  if (now_s - *state.last_write_s >= kWriteInterval_s) {
    state.run->write();
    state.last_write_s = now_s;
  }
  if (now_s - state.last_sync_s >= kSyncInterval_s) {
    flush();
    state.last_sync_s = now_s;
    state.run->compact_if_worth();
  }
}

void JobStore::flush() {
  state_->run->write();
  state_->run->sync();
}

// Temporary files with everything in them, then the renames; the journal goes last but one, so that
// a kill before leaves an unfinished job and a kill after it a finished one.
JobSummary JobStore::State::publish(const nlohmann::ordered_json& details) {
  const JobPaths& paths = options.paths;
  const bool apart = !paths.error_file.empty();
  const fs::path partial_path = paths.partial();
  const MergeSource source{run->partial().file(), partial_path, run->lines(), num_read};
  JobSummary summary{options.key,      run->header().first_start_s,
                     num_read,         input_hash.value(),
                     run->counts(),    0,
                     paths.error_file, 0};
  summary.output_bytes =
      merge_lines(source, {.answered = true, .failed = !apart}, temporary(paths.output), files);
  if (apart) {
    summary.error_bytes = merge_lines(source, {.answered = false, .failed = true},
                                      temporary(paths.error_file), files);
  }
  const File text = files.create(temporary(paths.summary()));
  files.write(text, to_json(summary, details), temporary(paths.summary()));
  files.sync(text, temporary(paths.summary()));
  if (apart) {
    files.rename(temporary(paths.error_file), paths.error_file);
    files.sync_directory(directory_of(paths.error_file));
  }
  files.rename(temporary(paths.output), paths.output);
  files.rename(temporary(paths.summary()), paths.summary());
  files.sync_directory(directory_of(paths.output));
  files.remove(paths.journal());
  files.sync_directory(directory_of(paths.journal()));
  sweep();
  return summary;
}

void JobStore::complete(const nlohmann::ordered_json& details) {
  State& state = *state_;
  flush();
  const JobCounts& sums = counts();
  if (sums.num_answered + sums.num_failed != state.num_read) {
    throw std::logic_error(fmt::format("{} of {} requests are finished",
                                       sums.num_answered + sums.num_failed, state.num_read));
  }
  state.finished = state.publish(details);
  state.run.reset();
  state.state = JobState::kFinished;
  state.lock->release();
}

int JobStore::exit_code() const {
  return counts().num_failed > 0 ? 3 : 0;
}

}  // namespace headrace
