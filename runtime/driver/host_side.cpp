#include "runtime/driver/host_side.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double now_s() {
  return seconds(Clock::now().time_since_epoch());
}

// The journal is written every 250 ms: the thread wakes a few times within that when nothing comes.
constexpr auto kIdleWake = std::chrono::milliseconds(50);

// A look at what the journal has due takes well under a microsecond; writing it takes more than
// this.
constexpr auto kShownTick = std::chrono::microseconds(5);

}  // namespace

struct HostSide::LiveSequence {
  std::shared_ptr<AnswerBuilder> answer;
  int choice = 0;
  Clock::time_point added{};
  Clock::time_point first_token{};
  Clock::time_point last_token{};
  int num_tokens = 0;  // in this run
};

HostSide::HostSide(InputReader reader, const RequestParser& parser, const AnswerContext& context,
                   JobStore& store, HostSettings settings)
    : reader_(std::move(reader)),
      parser_(parser),
      context_(context),
      store_(store),
      settings_(settings) {
  own_counts_.job = store.counts();
  own_counts_.bytes_total = reader_.bytes_total();
  counts_ = own_counts_;
  thread_ = std::thread([this] { run(); });
}

HostSide::~HostSide() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void HostSide::rethrow() {
  if (error_) std::rethrow_exception(error_);
}

void HostSide::take(std::vector<NewSequence>& sequences, std::vector<SequenceId>& stops) {
  const std::lock_guard lock(mutex_);
  rethrow();
  sequences.swap(outbox_);
  stops.swap(stops_);
}

void HostSide::give(std::vector<SequenceEvent> events) {
  {
    const std::lock_guard lock(mutex_);
    if (inbox_.empty()) {
      inbox_ = std::move(events);
    } else {
      inbox_.insert(inbox_.end(), std::make_move_iterator(events.begin()),
                    std::make_move_iterator(events.end()));
    }
  }
  wake_.notify_one();
}

void HostSide::recall(const std::vector<SequenceId>& ids) {
  {
    const std::lock_guard lock(mutex_);
    recalls_.insert(recalls_.end(), ids.begin(), ids.end());
  }
  wake_.notify_one();
}

void HostSide::stop_and_flush() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  join();
}

void HostSide::join() {
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  rethrow();
}

HostCounts HostSide::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

// What goes wrong here is raised in the pipeline's thread, the only one that may end the job.
void HostSide::run() {
  try {
    if (settings_.recorder != nullptr) settings_.recorder->start();
    loop();
    if (settings_.recorder != nullptr) settings_.recorder->stop();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
}

void HostSide::loop() {
  for (;;) {
    bool stopping = false;
    {
      const std::lock_guard lock(mutex_);
      stopping = stopping_;
    }
    const bool had_events = handle_events();
    const bool may_read =
        !stopping && !input_ended_ && static_cast<int>(live_.size()) < settings_.max_outstanding;
    const bool had_line = may_read && read_line();
    keep_journal();
    publish_counts();
    if (input_ended_ && live_.empty()) {
      finished_.store(true, std::memory_order_release);
      return;
    }
    if (stopping && !had_events) {
      store_.flush();
      return;
    }
    if (had_events || had_line) continue;
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kIdleWake,
                   [this] { return stopping_ || !inbox_.empty() || !recalls_.empty(); });
  }
}

// Most times nothing is due, and then there is no span.
void HostSide::keep_journal() {
  ScopedPhase phase(settings_.recorder, Phase::kJournal);
  const Clock::time_point start = Clock::now();
  store_.tick(now_s());
  if (Clock::now() - start < kShownTick) phase.withdraw();
}

void HostSide::publish_counts() {
  own_counts_.job = store_.counts();
  own_counts_.bytes_read = reader_.bytes_read();
  own_counts_.input_ended = input_ended_;
  const std::lock_guard lock(mutex_);
  counts_ = own_counts_;
  outbox_.insert(outbox_.end(), std::make_move_iterator(new_sequences_.begin()),
                 std::make_move_iterator(new_sequences_.end()));
  stops_.insert(stops_.end(), new_stops_.begin(), new_stops_.end());
  new_sequences_.clear();
  new_stops_.clear();
}

bool HostSide::handle_events() {
  std::vector<SequenceEvent> events;
  std::vector<SequenceId> recalls;
  {
    const std::lock_guard lock(mutex_);
    events.swap(inbox_);
    recalls.swap(recalls_);
  }
  if (events.empty() && recalls.empty()) return false;
  const ScopedPhase phase(settings_.recorder, Phase::kAnswer);
  for (const SequenceEvent& event : events) handle(event);
  for (const SequenceId id : recalls) move(id);
  return true;
}

// The same as a resume: prompt and tokens so far, under a new id.
void HostSide::move(SequenceId id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;  // it has ended meanwhile
  LiveSequence moved = found->second;
  live_.erase(found);
  std::optional<NewSequence> sequence = moved.answer->sequence(moved.choice);
  if (!sequence) throw std::logic_error("a sequence that has ended was still live");
  hand_out(std::move(*sequence), std::move(moved));
  own_counts_.num_moved_sequences += 1;
}

// To the pipeline, under a new id.
void HostSide::hand_out(NewSequence sequence, LiveSequence live) {
  sequence.id = next_id_++;
  live_.emplace(sequence.id, std::move(live));
  new_sequences_.push_back(std::move(sequence));
}

void HostSide::handle(const SequenceEvent& event) {
  const auto found = live_.find(event.id);
  if (found == live_.end()) return;  // its line ended by a stop string meanwhile
  LiveSequence& sequence = found->second;
  const std::shared_ptr<AnswerBuilder> answer = sequence.answer;
  AnswerBuilder& builder = *answer;
  const int choice = sequence.choice;
  if (!event.prompt_scores.empty()) builder.add_prompt_scores(choice, event.prompt_scores);
  const int first = builder.num_tokens(choice);
  if (event.has_token && builder.add(choice, event.token)) {
    store_.add_tokens({.ordinal = builder.request().ordinal, .choice = choice, .first = first},
                      std::span(&event.token, 1));
    own_counts_.num_run_tokens += 1;
    time_token(sequence);
  }
  if (event.finish != FinishReason::kNone) {
    builder.end(choice, event.finish);
  } else if (builder.choice_done(choice)) {
    new_stops_.push_back(event.id);  // a stop string: the scheduler does not know
  }
  if (!builder.choice_done(choice)) return;
  if (sequence.num_tokens > 1) {
    latencies_.per_output_token.add(seconds(sequence.last_token - sequence.first_token) /
                                    (sequence.num_tokens - 1));
  }
  live_.erase(found);
  finish_if_done(*answer);
}

void HostSide::time_token(LiveSequence& sequence) {
  sequence.last_token = Clock::now();
  if (sequence.num_tokens++ > 0) return;
  sequence.first_token = sequence.last_token;
  latencies_.first_token.add(seconds(sequence.first_token - sequence.added));
  if (latencies_.earliest_token == Clock::time_point{}) {
    latencies_.earliest_token = sequence.first_token;
  }
}

void HostSide::finish_if_done(const AnswerBuilder& builder) {
  if (!builder.done()) return;
  store_.finish_line({.ordinal = builder.request().ordinal,
                      .answered = true,
                      .num_prompt_tokens = builder.num_prompt_tokens(),
                      .num_completion_tokens = builder.num_completion_tokens()},
                     builder.line());
  own_counts_.num_run_lines += 1;
  own_counts_.num_live_lines -= 1;
}

bool HostSide::read_line() {
  const ScopedPhase phase(settings_.recorder, Phase::kRead);
  if (!reader_.next(line_)) {
    store_.end_input();
    input_ended_ = true;
    return true;
  }
  const LineState state = store_.begin_line(line_, reader_.place(line_));
  if (state == LineState::kFinished) {
    if (const auto id = peek_custom_id(line_.text)) store_.claim_custom_id(*id);
    return true;
  }
  ParsedLine parsed = parser_.parse(line_);
  if (parsed.custom_id && !store_.claim_custom_id(*parsed.custom_id)) {
    fail(line_, parsed,
         {.code = "duplicate_custom_id",
          .message = "custom_id \"" + *parsed.custom_id + "\" was used by an earlier line"});
    return true;
  }
  if (const auto* error = std::get_if<LineError>(&parsed.result)) {
    fail(line_, parsed, *error);
    return true;
  }
  SavedTokens saved;
  if (state == LineState::kStarted) saved = store_.take_saved(line_.ordinal);
  start(std::get<Request>(std::move(parsed.result)), std::move(saved));
  return true;
}

void HostSide::fail(const InputLine& line, const ParsedLine& parsed, const LineError& error) {
  store_.finish_line(
      {.ordinal = line.ordinal, .answered = false},
      failed_line({.line = line.number, .custom_id = parsed.custom_id, .error = error},
                  context_.job_key));
  own_counts_.num_run_lines += 1;
}

void HostSide::start(Request request, SavedTokens saved) {
  const auto shared = std::make_shared<const Request>(std::move(request));
  const auto answer = std::make_shared<AnswerBuilder>(shared, context_);
  const int num_choices = shared->num_choices();
  saved.resize(static_cast<std::size_t>(num_choices));
  own_counts_.num_live_lines += 1;
  for (int choice = 0; choice < num_choices; ++choice) {
    start_choice(answer, choice, saved[static_cast<std::size_t>(choice)]);
  }
  finish_if_done(*answer);
}

void HostSide::start_choice(const std::shared_ptr<AnswerBuilder>& answer, int choice,
                            const std::vector<ScoredToken>& saved) {
  for (const ScoredToken& token : saved) answer->add(choice, token);
  own_counts_.num_resumed_tokens += static_cast<std::int64_t>(saved.size());
  std::optional<NewSequence> sequence = answer->sequence(choice);
  if (!sequence) return;
  if (!saved.empty()) {
    own_counts_.num_rebuilt_tokens += static_cast<std::int64_t>(sequence->tokens.size());
  }
  own_counts_.num_run_prompt_tokens += sequence->num_prompt_tokens;
  hand_out(std::move(*sequence), {.answer = answer, .choice = choice, .added = Clock::now()});
}

}  // namespace headrace
