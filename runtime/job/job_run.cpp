#include "runtime/job/job_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "runtime/job/hash.h"

namespace headrace {
namespace {

// Choices of a request are far fewer; the bound keeps a damaged record from growing a table.
constexpr std::int32_t kMaxChoice = 1 << 16;
// A burst of finished lines is written before the quarter second is over.
constexpr std::size_t kMaxBufferedBytes = 4U << 20;

std::filesystem::path temporary(const std::string& path) {
  return path + ".tmp";
}

void sync_parent(const std::string& path, FileOps& files) {
  files.sync_directory(std::filesystem::path(path).parent_path());
}

}  // namespace

JobRun::JobRun(const Place& place, SpillArena& arena)
    : paths_(place.paths),
      files_(&place.files),
      compact_bytes_(static_cast<std::int64_t>(place.compact_bytes)),
      lines_(arena) {}

JobRun JobRun::start(const Place& place, SpillArena& arena, const JournalHeader& header) {
  JobRun run(place, arena);
  run.header_ = header;
  FileOps& files = place.files;
  const JobPaths& paths = place.paths;
  run.partial_ = AppendFile(files.create(paths.partial()), paths.partial(), files);
  sync_parent(paths.partial(), files);
  run.compact();
  return run;
}

JobRun JobRun::resume(const Place& place, SpillArena& arena, const JobKey& key) {
  JobRun run(place, arena);
  FileOps& files = place.files;
  const JobPaths& paths = place.paths;
  run.journal_ = AppendFile(files.open_append(paths.journal()), paths.journal(), files);
  run.partial_ = AppendFile(files.open_append(paths.partial()), paths.partial(), files);
  bool has_header = false;
  const std::int64_t good = scan_journal(run.journal_.file(), paths.journal(), [&](auto payload) {
    if (has_header) return run.load(payload);
    has_header = true;
    const JournalRecord record = decode_payload(payload);
    const auto* header = std::get_if<JournalHeader>(&record);
    if (header == nullptr) return;
    run.header_ = *header;
    const std::string difference = describe_difference(header->key, key);
    if (!difference.empty()) {
      throw std::invalid_argument(
          fmt::format("{}: the job began differently: {}; --overwrite starts afresh",
                      paths.journal(), difference));
    }
  });
  if (!has_header) {
    throw std::invalid_argument(
        fmt::format("{}: its first record is damaged; --overwrite starts afresh", paths.journal()));
  }
  run.journal_.truncate(good);
  run.partial_.truncate(run.partial_end_);
  return run;
}

std::int64_t JobRun::num_saved_tokens() const {
  std::int64_t count = 0;
  for (const auto& [ordinal, line] : saved_) {
    for (const auto& choice : line.choices) count += std::ssize(choice);
  }
  return count;
}

void JobRun::load(std::string_view payload) {
  JournalRecord record = decode_payload(payload);
  if (auto* finished = std::get_if<FinishedRecord>(&record)) {
    load(*finished);
  } else if (auto* tokens = std::get_if<TokensRecord>(&record)) {
    active_[tokens->ordinal].journal_bytes += framed_bytes(payload);
    load(std::move(*tokens));
  } else if (auto* counters = std::get_if<CountersRecord>(&record)) {
    counters_ = std::move(counters->json);
  }
}

void JobRun::load(const FinishedRecord& record) {
  if (!partial_has(record)) {
    ++num_lost_;
    return;
  }
  lines_.set_seen(record.ordinal, record.line_hash);
  lines_.set_finished(record.ordinal, record.answered, {record.offset, record.length});
  partial_end_ = std::max(partial_end_, record.offset + record.length + 1);
  garbage_bytes_ += active_[record.ordinal].journal_bytes;
  active_.erase(record.ordinal);
  saved_.erase(record.ordinal);
  ++(record.answered ? counts_.num_answered : counts_.num_failed);
  counts_.num_prompt_tokens += record.num_prompt_tokens;
  counts_.num_completion_tokens += record.num_completion_tokens;
}

void JobRun::load(TokensRecord record) {
  if (record.choice < 0 || record.choice >= kMaxChoice || lines_.finished(record.ordinal)) return;
  lines_.set_seen(record.ordinal, record.line_hash);
  SavedTokens& choices = saved_[record.ordinal].choices;
  const auto choice = static_cast<std::size_t>(record.choice);
  if (choices.size() <= choice) choices.resize(choice + 1);
  // Only an unbroken sequence is of use.
  if (record.first != static_cast<std::int32_t>(choices[choice].size())) return;
  std::move(record.tokens.begin(), record.tokens.end(), std::back_inserter(choices[choice]));
}

bool JobRun::partial_has(const FinishedRecord& record) {
  if (record.offset < 0 || record.offset > partial_.end() ||
      partial_.end() - record.offset < std::int64_t{record.length} + 1) {
    return false;
  }
  std::string line(std::size_t{record.length} + 1, '\0');
  if (!read_at(partial_.file(), record.offset, line) || line.back() != '\n') return false;
  line.pop_back();
  return hash64(line) == record.checksum;
}

void JobRun::drop_failed() {
  if (header_.retry) return;
  header_.retry = true;
  for (std::int64_t ordinal = 0; ordinal < lines_.size(); ++ordinal) {
    if (lines_.status(ordinal) == LineIndex::Status::kFailed) {
      lines_.set_seen(ordinal, lines_.hash(ordinal));
    }
  }
  counts_.num_failed = 0;
  compact();
}

LineState JobRun::begin_line(const InputLine& line, const std::string& place) {
  if (lines_.status(line.ordinal) == LineIndex::Status::kUnknown) {
    lines_.set_seen(line.ordinal, line.hash);
    return LineState::kNew;
  }
  if (lines_.hash(line.ordinal) != line.hash) {
    throw std::invalid_argument(fmt::format(
        "{}: request line {} is not the one the job began with; restore it, or --overwrite "
        "starts afresh",
        place.empty() ? "input" : place, line.number));
  }
  if (lines_.finished(line.ordinal)) return LineState::kFinished;
  return saved_.contains(line.ordinal) ? LineState::kStarted : LineState::kNew;
}

SavedTokens JobRun::take_saved(std::int64_t ordinal) {
  const auto saved = saved_.find(ordinal);
  if (saved == saved_.end()) return {};
  SavedTokens choices = std::move(saved->second.choices);
  saved_.erase(saved);
  return choices;
}

void JobRun::add_tokens(const JobStore::TokenDelta& delta, std::span<const ScoredToken> tokens) {
  if (lines_.status(delta.ordinal) != LineIndex::Status::kSeen) {
    throw std::logic_error(
        fmt::format("request {} has tokens but is finished or unread", delta.ordinal));
  }
  std::vector<Pending>& pending = active_[delta.ordinal].pending;
  auto mine = std::find_if(pending.begin(), pending.end(),
                           [&](const Pending& p) { return p.choice == delta.choice; });
  if (mine == pending.end()) {
    pending.push_back({delta.choice, delta.first, 0, {}});
    mine = pending.end() - 1;
  }
  if (delta.first != mine->first + mine->count) {
    throw std::logic_error(fmt::format("request {} choice {}: tokens from {} do not follow {}",
                                       delta.ordinal, delta.choice, delta.first,
                                       mine->first + mine->count));
  }
  for (const ScoredToken& token : tokens) encode_token(token, mine->encoded);
  mine->count += static_cast<std::int32_t>(tokens.size());
}

void JobRun::finish_line(const FinishedLine& finished, std::string_view output_line) {
  if (lines_.status(finished.ordinal) != LineIndex::Status::kSeen) {
    throw std::logic_error(fmt::format("request {} finished twice or unread", finished.ordinal));
  }
  if (output_line.size() >= UINT32_MAX) throw std::length_error("an output line of 4 GiB or more");
  const FinishedRecord record{finished.answered,
                              finished.ordinal,
                              lines_.hash(finished.ordinal),
                              partial_.end(),
                              static_cast<std::uint32_t>(output_line.size()),
                              hash64(output_line),
                              finished.num_prompt_tokens,
                              finished.num_completion_tokens};
  partial_.append(output_line);
  partial_.append("\n");
  append_to_journal(encode_payload(record));
  lines_.set_finished(finished.ordinal, finished.answered, {record.offset, record.length});
  const auto active = active_.find(finished.ordinal);
  if (active != active_.end()) {
    garbage_bytes_ += active->second.journal_bytes;
    active_.erase(active);
  }
  saved_.erase(finished.ordinal);
  ++(finished.answered ? counts_.num_answered : counts_.num_failed);
  counts_.num_prompt_tokens += finished.num_prompt_tokens;
  counts_.num_completion_tokens += finished.num_completion_tokens;
  if (partial_.buffered_bytes() > kMaxBufferedBytes) write();
}

void JobRun::set_counters(std::string json) {
  counters_changed_ = counters_changed_ || counters_ != json;
  counters_ = std::move(json);
}

void JobRun::append_to_journal(std::string_view payload) {
  std::string framed;
  append_record(framed, payload, journal_.end());
  journal_.append(framed);
}

void JobRun::journal_pending(std::int64_t ordinal, ActiveLine& line) {
  for (const Pending& pending : line.pending) {
    const TokensRecord head{ordinal, lines_.hash(ordinal), pending.choice, pending.first, {}};
    const std::string payload = encode_payload(head, pending.count, pending.encoded);
    append_to_journal(payload);
    line.journal_bytes += framed_bytes(payload);
  }
  line.pending.clear();
}

// Answers reach the file before the records that name them.
void JobRun::write() {
  for (auto& [ordinal, line] : active_) journal_pending(ordinal, line);
  if (counters_changed_) {
    const std::string payload = encode_payload(CountersRecord{counters_});
    append_to_journal(payload);
    garbage_bytes_ += framed_bytes(payload);
    counters_changed_ = false;
  }
  partial_.write();
  journal_.write();
}

void JobRun::sync() {
  partial_.sync();
  journal_.sync();
}

void JobRun::compact_if_worth() {
  if (garbage_bytes_ > compact_bytes_ && garbage_bytes_ > journal_.end() / 2) compact();
}

// Whether a record of the old journal belongs into the new one.
bool JobRun::is_live(const JournalRecord& record) const {
  if (const auto* finished = std::get_if<FinishedRecord>(&record)) {
    return lines_.finished(finished->ordinal) &&
           lines_.extent(finished->ordinal).offset == finished->offset;
  }
  if (const auto* tokens = std::get_if<TokensRecord>(&record)) {
    return lines_.status(tokens->ordinal) == LineIndex::Status::kSeen;
  }
  return false;  // header and counters are written anew
}

// Copies what is live, as a stream, into a new journal and puts it in the old one's place.
void JobRun::compact() {
  const std::filesystem::path path = temporary(paths_.journal());
  AppendFile fresh(files_->create(path), path, *files_);
  fresh.append(kJournalMagic);
  const auto copy = [&](std::string_view payload) {
    std::string framed;
    append_record(framed, payload, fresh.end());
    fresh.append(framed);
    if (fresh.buffered_bytes() > kMaxBufferedBytes) fresh.write();
  };
  copy(encode_payload(header_));
  if (journal_.file().is_open()) {
    scan_journal(journal_.file(), paths_.journal(), [&](std::string_view payload) {
      if (is_live(decode_payload(payload))) copy(payload);
    });
  }
  if (counters_ != "{}") copy(encode_payload(CountersRecord{counters_}));
  fresh.write();
  fresh.sync();
  files_->rename(path, paths_.journal());
  sync_parent(paths_.journal(), *files_);
  fresh.set_path(paths_.journal());
  journal_ = std::move(fresh);
  garbage_bytes_ = 0;
}

}  // namespace headrace
