#include "runtime/schedule/scheduler.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "kernels/ceil_div.h"
#include "runtime/schedule/admission_control.h"
#include "runtime/schedule/block_pool.h"
#include "runtime/schedule/scheduler_input.h"
#include "runtime/schedule/sequence.h"
#include "runtime/schedule/sequence_blocks.h"
#include "runtime/schedule/swap_space.h"

// Why a slot and its blocks are free at once, although steps in flight still use them: every stage
// executes plans in the order of next(), and a plan names only what was free when it was made. So
// at each stage the last row of the old owner comes before the release, and the release before the
// first row of the new one. Results are matched with sequences by the record of their step, never
// by slot, so a slot's next owner does not receive what the last one left in flight. Likewise what
// a preempted sequence keeps: its blocks are copied to host memory at the start of the plan in
// which others may first write to them, after the last of its rows and before any of theirs.
namespace headrace {
namespace {

// Rows of one sequence in a step in flight.
struct PlannedRows {
  std::shared_ptr<Sequence> sequence;
  Slot slot = 0;
  int first_position = 0;
  int num_scores = 0;  // scored rows that have a following token
  bool has_result = false;
  bool sample = false;
  bool complete = false;  // the sequence's known tokens end here
};

struct StepRecord {
  StepId id = 0;
  std::vector<PlannedRows> rows;
};

}  // namespace

struct Scheduler::State {
  explicit State(const SchedulerLimits& given)
      : limits(given),
        pool(given.num_blocks),
        swap(given),
        projection(given),
        running(static_cast<std::size_t>(given.max_num_seqs), nullptr) {
    const auto num_seqs = static_cast<std::size_t>(limits.max_num_seqs);
    for (Slot slot = limits.max_num_seqs - 1; slot >= 0; --slot) free_slots.push_back(slot);
    ready.reserve(num_seqs);
    prefilling.reserve(num_seqs);
    released.reserve(num_seqs);
  }

  void plan_decode_rows(StepPlan& plan, StepRecord& record);
  void plan_prefill_rows(StepPlan& plan, StepRecord& record);
  Sequence* admit_next(StepPlan& plan, int max_rows);
  int plan_chunk(Sequence& sequence, int max_rows, StepPlan& plan, StepRecord& record);
  void plan_rows(Sequence& sequence, StepEntry entry, StepPlan& plan, StepRecord& record);
  int blocks_for(int num_tokens) const { return Scheduler::blocks_for(limits, num_tokens); }
  bool has_block_for_next_row(Sequence& sequence, StepId step);
  Sequence* last_in_queue(const Sequence& after, StepId step);
  void preempt(Sequence& sequence);
  void give_back_slot(Sequence& sequence);
  void end(Sequence& sequence);
  void take_blocks(Sequence& sequence, StepPlan& plan);
  bool fits_plan(const StepPlan& plan, const Admission& admission, std::size_t num_words) const;
  std::size_t words_of_first_entry(const Sequence& sequence, int max_rows) const;
  bool fits_blocks(const Sequence& sequence);
  Workload workload() const;
  void take_scores(Sequence& sequence, const StepResult::Entry& entry, SequenceEvent& event);
  void take_token(Sequence& sequence, const ScoredToken& token, SequenceEvent& event);

  SchedulerLimits limits;
  BlockPool pool;
  SwapSpace swap;
  OutputEstimate estimate;
  KvProjection projection;
  bool projection_is_current = false;  // within one next()
  bool preempted_now = false;          // likewise

  std::unordered_map<SequenceId, std::shared_ptr<Sequence>> alive;
  std::map<QueueKey, Sequence*> waiting;
  std::vector<Sequence*> prefilling;  // in order of admission
  std::vector<Sequence*> ready;       // decodes with a row to plan, longest ready first
  std::vector<Sequence*> running;     // by slot; null where free
  std::vector<Slot> free_slots;       // last in, first out
  std::vector<Slot> released;         // since the last plan
  std::deque<StepRecord> in_flight;

  StepId next_step = 0;
  std::int64_t next_order = 0;
  int num_decoding = 0;
  std::int64_t num_waiting_tokens = 0;
  std::int64_t num_alive_prompt_tokens = 0;
  std::int64_t num_alive_max_tokens = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t num_recomputed_tokens = 0;
};

Scheduler::Scheduler(const SchedulerLimits& limits) {
  check_limits(limits);
  state_ = std::make_unique<State>(limits);
}

Scheduler::~Scheduler() = default;

bool Scheduler::add(NewSequence sequence) {
  State& s = *state_;
  check_sequence(sequence);
  if (s.alive.count(sequence.id) != 0) {
    throw std::invalid_argument("sequence " + std::to_string(sequence.id) + ": is running already");
  }
  const std::int64_t length = std::int64_t{sequence.num_prompt_tokens} + sequence.max_tokens;
  // The last token is not fed back, so it needs no place in the cache.
  const std::int64_t positions = std::max<std::int64_t>(
      {sequence.num_prompt_tokens, length - 1, static_cast<std::int64_t>(sequence.tokens.size())});
  if (length > s.limits.max_model_len) return false;
  if (s.blocks_for(static_cast<int>(positions)) > s.limits.num_blocks) return false;

  auto added = std::make_shared<Sequence>();
  added->id = sequence.id;
  added->key = {sequence.priority, s.next_order++};
  added->tokens = std::move(sequence.tokens);
  added->num_prompt_tokens = sequence.num_prompt_tokens;
  added->max_tokens = sequence.max_tokens;
  added->stop_token_ids = std::move(sequence.stop_token_ids);
  added->params = std::move(sequence.params);
  s.waiting.emplace(added->key, added.get());
  s.num_waiting_tokens += added->num_uncomputed();
  s.num_alive_prompt_tokens += added->num_prompt_tokens;
  s.num_alive_max_tokens += added->max_tokens;
  s.alive.emplace(added->id, std::move(added));
  return true;
}

void Scheduler::add_checked(NewSequence sequence) {
  const std::string length = std::to_string(sequence.tokens.size());
  if (add(std::move(sequence))) return;
  throw std::logic_error("a sequence of " + length +
                         " tokens passed the parser but can never be scheduled");
}

void Scheduler::stop(SequenceId id) {
  const auto found = state_->alive.find(id);
  if (found != state_->alive.end()) state_->end(*found->second);
}

std::optional<StepPlan> Scheduler::next() {
  State& s = *state_;
  if (static_cast<int>(s.in_flight.size()) >= s.limits.num_micro_batches) return std::nullopt;
  s.projection_is_current = false;
  s.preempted_now = false;
  StepPlan plan;
  plan.id = s.next_step;
  plan.num_kv_groups = s.limits.kv.size();
  StepRecord record;
  record.id = plan.id;
  s.plan_decode_rows(plan, record);
  s.plan_prefill_rows(plan, record);
  // Releases need no step of their own: they wait for the next one that has rows.
  if (plan.entries.empty()) return std::nullopt;
  plan.released.assign(s.released.begin(), s.released.end());
  s.released.clear();
  plan.saves = s.swap.take_saves();
  s.in_flight.push_back(std::move(record));
  ++s.next_step;
  return plan;
}

// Every step takes its even share of all decodes, in flight or not, from one queue. Sequences are
// not bound to micro-batches: shares stay even while sequences end at random.
void Scheduler::State::plan_decode_rows(StepPlan& plan, StepRecord& record) {
  int wanted = std::min(ceil_div(num_decoding, limits.num_micro_batches), limits.max_rows);
  std::size_t num_kept = 0;
  for (Sequence* sequence : ready) {
    if (sequence->phase != SequencePhase::kDecode) continue;  // preempted by one before it
    if (wanted == 0 || !has_block_for_next_row(*sequence, plan.id)) {
      ready[num_kept++] = sequence;
      continue;
    }
    StepEntry entry;
    entry.num_rows = 1;
    entry.sample = true;
    plan_rows(*sequence, entry, plan, record);
    --wanted;
  }
  ready.resize(num_kept);
  std::erase_if(ready, [](const Sequence* s) { return s->phase != SequencePhase::kDecode; });
}

// Several chunks of one prompt may be in flight: stages execute steps in order, so a chunk finds
// the keys and values of the chunks before it.
void Scheduler::State::plan_prefill_rows(StepPlan& plan, StepRecord& record) {
  int rows = prefill_rows(limits, workload(), plan.num_rows());
  std::size_t num_done = 0;
  while (rows > 0 && num_done < prefilling.size()) {
    rows -= plan_chunk(*prefilling[num_done], rows, plan, record);
    if (prefilling[num_done]->phase == SequencePhase::kPrefill) break;
    ++num_done;
  }
  prefilling.erase(prefilling.begin(), prefilling.begin() + static_cast<std::ptrdiff_t>(num_done));
  if (!prefilling.empty()) return;
  while (rows > 0) {
    Sequence* sequence = admit_next(plan, rows);
    if (sequence == nullptr) return;
    rows -= plan_chunk(*sequence, rows, plan, record);
    if (sequence->phase == SequencePhase::kPrefill) prefilling.push_back(sequence);
  }
}

// Takes the first that waits, with blocks for all its tokens, so that a prefill once begun never
// lacks blocks. Null where it must wait longer; those behind it wait with it.
Sequence* Scheduler::State::admit_next(StepPlan& plan, int max_rows) {
  if (waiting.empty() || free_slots.empty() || preempted_now) return nullptr;
  Sequence& sequence = *waiting.begin()->second;
  // After preemption its last rows must have come back first, so that no token arrives twice.
  if (sequence.num_steps_in_flight > 0) return nullptr;
  Admission admission;
  admission.slot = free_slots.back();
  admission.num_prompt_tokens = sequence.num_prompt_tokens;
  admission.max_length = sequence.num_prompt_tokens + sequence.max_tokens;
  admission.params = sequence.params;
  if (!fits_plan(plan, admission, words_of_first_entry(sequence, max_rows))) return nullptr;
  if (!fits_blocks(sequence)) return nullptr;

  waiting.erase(waiting.begin());
  num_waiting_tokens -= sequence.num_uncomputed();
  free_slots.pop_back();
  running[static_cast<std::size_t>(admission.slot)] = &sequence;
  sequence.slot = admission.slot;
  sequence.phase = SequencePhase::kPrefill;
  take_blocks(sequence, plan);
  plan.admitted.push_back(std::move(admission));
  return &sequence;
}

void Scheduler::State::take_blocks(Sequence& sequence, StepPlan& plan) {
  const int max_positions = sequence.num_prompt_tokens + sequence.max_tokens;
  sequence.tokens.reserve(static_cast<std::size_t>(max_positions));
  sequence.blocks.reserve(limits, max_positions);
  if (sequence.num_computed == 0) {
    sequence.blocks.take_for_prefill(limits, pool, sequence.num_tokens());
    return;
  }
  sequence.blocks.take_for_return(
      limits, pool, {.num_computed = sequence.num_computed, .num_tokens = sequence.num_tokens()});
  swap.restore(limits, sequence, plan.restores);
}

// Tokens, one that follows, blocks, and what brings back the contents of some.
std::size_t Scheduler::State::words_of_first_entry(const Sequence& sequence, int max_rows) const {
  const int num_rows = std::min(max_rows, sequence.num_uncomputed());
  std::size_t num_words = static_cast<std::size_t>(num_rows) + 1 + 2 * sequence.swap_blocks.size();
  for (int g = 0; g < limits.kv.size(); ++g) {
    num_words += static_cast<std::size_t>(
        ceil_div(sequence.num_computed + num_rows, tokens_per_block(limits, g)));
  }
  return num_words;
}

// Releases and saves join the plan when it is done.
bool Scheduler::State::fits_plan(const StepPlan& plan, const Admission& admission,
                                 std::size_t num_words) const {
  if (limits.max_plan_bytes == 0) return true;
  num_words += released.size() + 2 * static_cast<std::size_t>(swap.num_saves());
  return encoded_bytes(plan) + encoded_bytes(admission) + encoded_entry_bytes(plan.num_kv_groups) +
             sizeof(std::int32_t) * num_words <=
         limits.max_plan_bytes;
}

// A sequence alone always fits, or add() would have refused it; so the first in the queue gets its
// turn however wrong the projection is.
bool Scheduler::State::fits_blocks(const Sequence& sequence) {
  if (pool.num_free() < blocks_for(sequence.num_tokens())) return false;
  if (static_cast<int>(free_slots.size()) == limits.max_num_seqs) return true;
  const auto remaining = [this](const Sequence& s) {
    return estimate.remaining(s.num_generated(), s.max_tokens);
  };
  if (!projection_is_current) {
    projection.clear();
    for (const Sequence* s : running) {
      if (s != nullptr) projection.add(s->num_tokens(), remaining(*s));
    }
    projection_is_current = true;
  }
  return projection.add_if_it_fits(sequence.num_tokens(), remaining(sequence), limits.num_blocks);
}

Workload Scheduler::State::workload() const {
  Workload sum;
  sum.num_sequences = static_cast<std::int64_t>(alive.size());
  sum.num_prompt_tokens = num_alive_prompt_tokens;
  sum.num_output_tokens = estimate.fraction() * static_cast<double>(num_alive_max_tokens);
  sum.num_uncomputed_tokens = num_waiting_tokens;
  for (const Sequence* sequence : prefilling)
    sum.num_uncomputed_tokens += sequence->num_uncomputed();
  return sum;
}

// Plans the next rows of a prompt, at most max_rows; returns how many. A chunk is scored as a whole
// or not at all: it ends where the scores begin (after a preemption) and, when generated tokens
// follow, before the prompt's last position, whose following token was not the request's.
int Scheduler::State::plan_chunk(Sequence& sequence, int max_rows, StepPlan& plan,
                                 StepRecord& record) {
  StepEntry entry;
  const int position = sequence.num_computed;
  const int score_end = sequence.num_prompt_tokens - 1;
  entry.num_rows = std::min(max_rows, sequence.num_uncomputed());
  if (sequence.params.num_prompt_logprobs >= 0 && sequence.num_scored < score_end) {
    entry.score = position >= sequence.num_scored && position < score_end;
    if (position < sequence.num_scored) {
      entry.num_rows = std::min(entry.num_rows, sequence.num_scored - position);
    } else if (entry.score && sequence.num_generated() > 0) {
      entry.num_rows = std::min(entry.num_rows, score_end - position);
    }
  }
  const int end = position + entry.num_rows;
  entry.sample = end == sequence.num_tokens() && sequence.num_generated() < sequence.max_tokens;
  if (entry.score) {
    plan.following.push_back(
        end < sequence.num_tokens() ? sequence.tokens[static_cast<std::size_t>(end)] : -1);
  }
  plan_rows(sequence, entry, plan, record);
  if (end == sequence.num_tokens()) {
    sequence.phase = SequencePhase::kDecode;
    ++num_decoding;
  }
  return entry.num_rows;
}

// Fills in what is the same for prefill and decode, and adds the rows to plan and record.
void Scheduler::State::plan_rows(Sequence& sequence, StepEntry entry, StepPlan& plan,
                                 StepRecord& record) {
  const int begin = sequence.num_computed;
  const int end = begin + entry.num_rows;
  entry.slot = sequence.slot;
  entry.first_position = begin;
  if (!sequence.blocks.cover(limits, {begin, end}, nullptr)) {
    throw std::logic_error("scheduler: sequence " + std::to_string(sequence.id) +
                           " lacks a block for positions up to " + std::to_string(end - 1));
  }
  for (int g = 0; g < limits.kv.size(); ++g) {
    entry.num_new_blocks[static_cast<std::size_t>(g)] =
        sequence.blocks.append_unsent(limits, g, end, plan.new_blocks);
  }
  plan.tokens.insert(plan.tokens.end(), sequence.tokens.begin() + begin,
                     sequence.tokens.begin() + end);
  plan.entries.push_back(entry);

  PlannedRows rows;
  rows.sequence = sequence.shared_from_this();
  rows.slot = sequence.slot;
  rows.first_position = begin;
  rows.has_result = entry.sample || entry.score;
  rows.sample = entry.sample;
  rows.complete = end == sequence.num_tokens();
  if (rows.complete) sequence.blocks.release_unneeded(limits, pool, begin);
  if (entry.score) rows.num_scores = entry.num_rows - (rows.complete ? 1 : 0);
  record.rows.push_back(std::move(rows));

  num_recomputed_tokens += std::max(0, std::min(end, sequence.num_computed_before) - begin);
  sequence.num_computed = end;
  sequence.num_steps_in_flight += 1;
  sequence.last_step = plan.id;
}

// Makes sure that the blocks of the sequence's next position are there, if need be by preempting
// those behind it in the queue. False where it must wait.
//
// No livelock: a sequence loses its blocks only to one before it in the queue, so the first of all
// that run never does; it finds a block once those behind it have given theirs, and it ends.
bool Scheduler::State::has_block_for_next_row(Sequence& sequence, StepId step) {
  const int next = sequence.num_computed;
  while (!sequence.blocks.cover(limits, {next, next + 1}, &pool)) {
    Sequence* victim = last_in_queue(sequence, step);
    if (victim == nullptr) return false;
    preempt(*victim);
  }
  return true;
}

// The last in the queue of those that run, are behind `after` and have no rows in this step.
Sequence* Scheduler::State::last_in_queue(const Sequence& after, StepId step) {
  Sequence* last = nullptr;
  for (Sequence* sequence : running) {
    if (sequence == nullptr || sequence->last_step == step || !(after.key < sequence->key))
      continue;
    if (last == nullptr || last->key < sequence->key) last = sequence;
  }
  return last;
}

// Back to its old place in the queue, with all its tokens; their keys and values wait in the swap
// space or are computed again. Random numbers and penalties follow from positions, so its next
// tokens are the same.
void Scheduler::State::preempt(Sequence& sequence) {
  const int num_saved = swap.save(limits, sequence) ? sequence.num_computed : 0;
  give_back_slot(sequence);
  sequence.num_computed = num_saved;
  sequence.phase = SequencePhase::kWaiting;
  waiting.emplace(sequence.key, &sequence);
  num_waiting_tokens += sequence.num_uncomputed();
  ++num_preemptions;
  estimate.blocks_ran_out();
  preempted_now = true;
}

// Frees slot and blocks of a running sequence. It may stay in `ready`, whose reader checks the
// phase.
void Scheduler::State::give_back_slot(Sequence& sequence) {
  if (sequence.phase == SequencePhase::kDecode) --num_decoding;
  if (sequence.phase == SequencePhase::kPrefill) std::erase(prefilling, &sequence);
  sequence.blocks.release_all(pool);
  released.push_back(sequence.slot);
  free_slots.push_back(sequence.slot);
  running[static_cast<std::size_t>(sequence.slot)] = nullptr;
  sequence.slot = -1;
  sequence.num_computed_before = std::max(sequence.num_computed_before, sequence.num_computed);
  sequence.num_computed = 0;
}

// The sequence may be destroyed here; steps in flight keep it alive where they need it.
void Scheduler::State::end(Sequence& sequence) {
  if (sequence.phase == SequencePhase::kWaiting) {
    waiting.erase(sequence.key);
    num_waiting_tokens -= sequence.num_uncomputed();
    swap.drop(sequence);
  } else {
    std::erase(ready, &sequence);
    give_back_slot(sequence);
  }
  sequence.phase = SequencePhase::kEnded;
  num_alive_prompt_tokens -= sequence.num_prompt_tokens;
  num_alive_max_tokens -= sequence.max_tokens;
  if (sequence.num_generated() > 0) {
    estimate.sequence_ended(sequence.num_generated(), sequence.max_tokens);
  }
  alive.erase(sequence.id);
}

std::vector<SequenceEvent> Scheduler::complete(const StepResult& result) {
  State& s = *state_;
  const auto check = [&](bool good, const char* what) {
    if (good) return;
    throw std::logic_error("scheduler: result of step " + std::to_string(result.id) + ": " + what);
  };
  check(!s.in_flight.empty() && s.in_flight.front().id == result.id, "not the oldest in flight");
  const StepRecord record = std::move(s.in_flight.front());
  s.in_flight.pop_front();

  std::vector<SequenceEvent> events;
  std::size_t num_read = 0;
  for (const PlannedRows& rows : record.rows) {
    const StepResult::Entry* entry = nullptr;
    if (rows.has_result) {
      check(num_read < result.entries.size(), "has too few entries");
      entry = &result.entries[num_read++];
      check(entry->slot == rows.slot && entry->first_position == rows.first_position &&
                entry->sampled == rows.sample &&
                entry->scored.size() == static_cast<std::size_t>(rows.num_scores),
            "an entry does not match the plan's");
    }
    Sequence& sequence = *rows.sequence;
    --sequence.num_steps_in_flight;
    if (sequence.phase == SequencePhase::kEnded) continue;
    SequenceEvent event;
    event.id = sequence.id;
    if (entry != nullptr) {
      s.take_scores(sequence, *entry, event);
      if (rows.sample) s.take_token(sequence, entry->token, event);
    }
    if (rows.complete && !rows.sample) event.finish = FinishReason::kLength;
    if (event.finish != FinishReason::kNone) s.end(sequence);
    if (event.has_token || event.finish != FinishReason::kNone || !event.prompt_scores.empty()) {
      events.push_back(std::move(event));
    }
  }
  check(num_read == result.entries.size(), "has too many entries");
  return events;
}

void Scheduler::State::take_scores(Sequence& sequence, const StepResult::Entry& entry,
                                   SequenceEvent& event) {
  event.prompt_scores = entry.scored;
  sequence.num_scored += static_cast<int>(entry.scored.size());
}

// A token that arrives after the sequence was preempted counts too: it is the one that computing
// again would give.
void Scheduler::State::take_token(Sequence& sequence, const ScoredToken& token,
                                  SequenceEvent& event) {
  event.has_token = true;
  event.token = token;
  sequence.tokens.push_back(token.token);
  if (sequence.phase == SequencePhase::kWaiting) ++num_waiting_tokens;
  const std::vector<TokenId>& stops = sequence.stop_token_ids;
  const int num_generated = sequence.num_generated();
  if (num_generated >= sequence.params.min_tokens &&
      std::binary_search(stops.begin(), stops.end(), token.token)) {
    event.finish = FinishReason::kStop;
  } else if (num_generated >= sequence.max_tokens ||
             sequence.num_tokens() >= limits.max_model_len) {
    event.finish = FinishReason::kLength;
  } else if (sequence.phase == SequencePhase::kDecode) {
    ready.push_back(&sequence);
  }
}

bool Scheduler::idle() const {
  return state_->alive.empty() && state_->in_flight.empty();
}

SchedulerStats Scheduler::stats() const {
  const State& s = *state_;
  SchedulerStats stats;
  stats.num_waiting = static_cast<int>(s.waiting.size());
  stats.num_running = s.limits.max_num_seqs - static_cast<int>(s.free_slots.size());
  stats.num_in_flight = static_cast<int>(s.in_flight.size());
  stats.num_free_blocks = s.pool.num_free();
  stats.num_free_swap_blocks = s.swap.num_free();
  stats.num_swapped_sequences = s.swap.num_sequences();
  stats.num_swapped_blocks = s.swap.num_blocks();
  stats.num_preemptions = s.num_preemptions;
  stats.num_recomputed_tokens = s.num_recomputed_tokens;
  stats.num_waiting_prompt_tokens = s.num_waiting_tokens;
  return stats;
}

}  // namespace headrace
