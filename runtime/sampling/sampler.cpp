#include "runtime/sampling/sampler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/thread_pool.h"
#include "runtime/sampling/token_choice.h"

namespace headrace {
namespace {

// What the sampler keeps of a running sequence.
struct SlotState {
  bool admitted = false;
  int num_prompt_tokens = 0;
  SamplingParams params;
  std::vector<TokenId> tokens;  // by position; empty unless a penalty looks at them

  // The next token is drawn from the model's own logits.
  bool takes_own_logits(int num_generated) const {
    const bool banned = num_generated < params.min_tokens && !params.banned_before_min.empty();
    return !banned && !params.has_penalties() && params.logit_bias.empty();
  }
  // The next token is that of the model's best logit.
  bool takes_best(int num_generated) const {
    return params.temperature < kGreedyBelow && params.num_logprobs < 0 &&
           takes_own_logits(num_generated);
  }
};

// Changes to single logits that can be taken back, since log-probabilities are the model's own.
class LogitEdits {
 public:
  void set(std::span<float> logits, TokenId id, float value) {
    float& logit = logits[static_cast<std::size_t>(id)];
    undo_.push_back({id, logit});
    logit = value;
  }
  void restore(std::span<float> logits) {
    for (auto edit = undo_.rbegin(); edit != undo_.rend(); ++edit) {
      logits[static_cast<std::size_t>(edit->id)] = edit->value;
    }
    undo_.clear();
  }

 private:
  struct Edit {
    TokenId id;
    float value;
  };
  std::vector<Edit> undo_;
};

// At higher temperatures the inverse is a denormal number, which devices take for 0.
constexpr float kHottestLeaders = 1e30F;

float penalised(float logit, const SamplingParams& params, int num_generated) {
  logit = logit > 0.0F ? logit / params.repetition_penalty : logit * params.repetition_penalty;
  logit -= params.frequency_penalty * static_cast<float>(num_generated);
  return num_generated > 0 ? logit - params.presence_penalty : logit;
}

// 24 bits of the first word, as a float in [0, 1).
float uniform_of(const SamplingParams& params, int num_generated) {
  const PhiloxCounter counter = {{static_cast<std::uint32_t>(params.stream),
                                  static_cast<std::uint32_t>(params.stream >> 32), params.choice,
                                  static_cast<std::uint32_t>(num_generated)}};
  return static_cast<float>(philox4x32_10(counter, params.key).word[0] >> 8) * 0x1p-24F;
}

// Calls visit(entry, following, row) for the entries that sample or score; following is the token
// after an entry with score, row the index of the entry's first row.
template <typename Visit>
void for_each_entry_with_logits(const StepPlan& plan, const Visit& visit) {
  std::size_t num_following = 0;
  std::int32_t row = 0;
  for (const StepEntry& entry : plan.entries) {
    const TokenId following = entry.score ? plan.following[num_following++] : -1;
    if (entry.score || entry.sample) visit(entry, following, row);
    row += entry.num_rows;
  }
}

// Scored rows are the leading ones: all, or all but the last where no token follows it.
std::int32_t num_scored_rows(const StepEntry& entry, TokenId following) {
  if (!entry.score) return 0;
  return following < 0 ? entry.num_rows - 1 : entry.num_rows;
}

// One row of logits and what is to be made of it. Rows share nothing, so any thread may do any.
struct RowJob {
  const SlotState* slot = nullptr;
  int position = 0;
  float* logits = nullptr;  // [vocab]
  float log_sum_exp = 0.0F;
  const RowLeaders* leaders = nullptr;  // where only these are known
  bool is_drawn = false;
  TokenId following = -1;         // to be scored
  ScoredToken* scored = nullptr;  // where its score goes; null: none asked for
  ScoredToken* sampled = nullptr;

  int num_generated() const { return position + 1 - slot->num_prompt_tokens; }
  bool takes_best() const {
    return scored == nullptr && sampled != nullptr && slot->takes_best(num_generated());
  }
  // 0 where the whole row is needed. The best logits lead at any temperature.
  float leader_temperature() const {
    if (scored != nullptr || sampled == nullptr) return 0.0F;
    if (!slot->takes_own_logits(num_generated())) return 0.0F;
    const float temperature = slot->params.temperature;
    if (temperature < kGreedyBelow) return 1.0F;
    return temperature <= kHottestLeaders ? temperature : 0.0F;
  }
};

// What one thread needs to draw from a row.
class RowWorker {
 public:
  explicit RowWorker(int vocab)
      : vocab_(static_cast<std::size_t>(vocab)), chooser_(vocab), seen_(vocab_, 0) {}

  /// Draws from the row, or, where they are enough, from its leaders.
  void run(RowJob& job);

 private:
  void draw_from_row(const RowJob& job);
  bool draw_from_leaders(const RowJob& job);
  void ban_and_bias(const SlotState& state, int num_generated, std::span<float> logits);
  void penalise(const SlotState& state, int num_tokens, std::span<float> logits);

  std::size_t vocab_;
  TokenChooser chooser_;
  LogitEdits edits_;
  // For one row at a time: bit 0, the id is in the prompt; the rest, how often it was generated.
  std::vector<std::int32_t> seen_;  // [vocab], zero between rows
};

void RowWorker::run(RowJob& job) {
  if (job.leaders != nullptr) {
    job.is_drawn = draw_from_leaders(job);
  } else {
    draw_from_row(job);
    job.is_drawn = true;
  }
}

bool RowWorker::draw_from_leaders(const RowJob& job) {
  const SamplingParams& params = job.slot->params;
  const std::optional<TokenId> token =
      chooser_.choose(*job.leaders, params, uniform_of(params, job.num_generated()));
  if (!token) return false;
  std::optional<ScoredToken> scored =
      score_token(*job.leaders, job.log_sum_exp, *token, params.num_logprobs);
  if (!scored) return false;
  *job.sampled = std::move(*scored);
  return true;
}

void RowWorker::draw_from_row(const RowJob& job) {
  const std::span<float> logits(job.logits, vocab_);
  const SlotState& state = *job.slot;
  if (job.scored != nullptr) {
    *job.scored =
        score_token(logits, job.log_sum_exp, job.following, state.params.num_prompt_logprobs);
  }
  if (job.sampled == nullptr) return;
  const int num_generated = job.num_generated();
  ban_and_bias(state, num_generated, logits);
  if (state.params.has_penalties()) penalise(state, job.position + 1, logits);
  const TokenId token =
      chooser_.choose(logits, state.params, uniform_of(state.params, num_generated));
  edits_.restore(logits);
  *job.sampled = score_token(logits, job.log_sum_exp, token, state.params.num_logprobs);
}

void RowWorker::ban_and_bias(const SlotState& state, int num_generated, std::span<float> logits) {
  if (num_generated < state.params.min_tokens) {
    for (const TokenId id : state.params.banned_before_min) edits_.set(logits, id, -INFINITY);
  }
  for (const auto& [id, bias] : state.params.logit_bias) {
    edits_.set(logits, id, logits[static_cast<std::size_t>(id)] + bias);
  }
}

void RowWorker::penalise(const SlotState& state, int num_tokens, std::span<float> logits) {
  // Ids of the prompt matter to the repetition penalty alone.
  const bool from_prompt = state.params.repetition_penalty != 1.0F;
  const int first = from_prompt ? 0 : state.num_prompt_tokens;
  const auto begin = static_cast<std::size_t>(first);
  const auto first_generated = static_cast<std::size_t>(state.num_prompt_tokens);
  const auto end = static_cast<std::size_t>(num_tokens);
  for (std::size_t i = begin; i < end; ++i) {
    std::int32_t& mark = seen_[static_cast<std::size_t>(state.tokens[i])];
    mark = i < first_generated ? (mark | 1) : mark + 2;
  }
  for (std::size_t i = begin; i < end; ++i) {
    const TokenId id = state.tokens[i];
    std::int32_t& mark = seen_[static_cast<std::size_t>(id)];
    if (mark == 0) continue;  // an earlier place of the same id did it
    edits_.set(logits, id,
               penalised(logits[static_cast<std::size_t>(id)], state.params, mark >> 1));
    mark = 0;
  }
}

}  // namespace

struct Sampler::State {
  SlotState& slot(Slot index);
  void admit(const Admission& admission);
  void remember(const StepEntry& entry, const TokenId* tokens);
  void check_id(TokenId id, const char* what) const;
  void list_jobs(const StepPlan& plan);
  void forget_jobs();
  void take_statistics(std::span<RowJob> some, std::span<const RowStatistics> statistics);
  void run_jobs(std::span<RowJob> some);
  [[noreturn]] void refuse_logits(const RowJob& job) const;
  std::span<RowJob> jobs_of(IndexRange rows);

  int vocab_size = 0;
  ThreadPool* pool = nullptr;
  std::vector<SlotState> slots;
  std::vector<RowWorker> workers;  // one a thread

  // Of the step at hand.
  StepResult result;
  std::vector<std::int32_t> rows;          // with logits
  std::vector<RowJob> jobs;                // one for each; they point into result
  std::vector<float> leader_temperatures;  // likewise
  std::vector<IndexRange> left;            // by draw_from_leaders()
  std::vector<std::int32_t> greedy_rows;
  std::vector<RowJob> greedy_jobs;
  bool has_best = false;  // for them
};

Sampler::Sampler(int max_num_seqs, int vocab_size, ThreadPool* pool) {
  if (max_num_seqs < 1 || vocab_size < 1) {
    throw std::invalid_argument("sampler: needs at least one slot and one id, has " +
                                std::to_string(max_num_seqs) + " and " +
                                std::to_string(vocab_size));
  }
  state_ = std::make_unique<State>();
  state_->vocab_size = vocab_size;
  state_->pool = pool;
  state_->slots.resize(static_cast<std::size_t>(max_num_seqs));
  const int num_workers = pool == nullptr ? 1 : pool->num_threads();
  for (int i = 0; i < num_workers; ++i) state_->workers.emplace_back(vocab_size);
}

Sampler::~Sampler() = default;

void Sampler::begin(const StepPlan& plan) {
  for (const Slot slot : plan.released) state_->slot(slot) = SlotState{};
  for (const Admission& admission : plan.admitted) state_->admit(admission);
  const TokenId* tokens = plan.tokens.data();
  for (const StepEntry& entry : plan.entries) {
    state_->remember(entry, tokens);
    tokens += entry.num_rows;
  }
  state_->list_jobs(plan);
}

SlotState& Sampler::State::slot(Slot index) {
  if (index < 0 || index >= static_cast<Slot>(slots.size())) {
    throw std::runtime_error("sampler: slot " + std::to_string(index) + " is beyond the " +
                             std::to_string(slots.size()) + " there are");
  }
  return slots[static_cast<std::size_t>(index)];
}

void Sampler::State::check_id(TokenId id, const char* what) const {
  if (id >= 0 && id < vocab_size) return;
  throw std::runtime_error(std::string("sampler: ") + what + " " + std::to_string(id) +
                           " is outside the vocabulary of " + std::to_string(vocab_size));
}

void Sampler::State::admit(const Admission& admission) {
  for (const auto& [id, bias] : admission.params.logit_bias) check_id(id, "biased token");
  for (const TokenId id : admission.params.banned_before_min) check_id(id, "banned token");
  SlotState& state = slot(admission.slot);
  state.admitted = true;
  state.num_prompt_tokens = admission.num_prompt_tokens;
  state.params = admission.params;
  state.tokens.clear();
}

void Sampler::State::remember(const StepEntry& entry, const TokenId* tokens) {
  SlotState& state = slot(entry.slot);
  if (!state.admitted) {
    throw std::runtime_error("sampler: rows for slot " + std::to_string(entry.slot) +
                             ", which holds no sequence");
  }
  if (!state.params.has_penalties()) return;
  const auto begin = static_cast<std::size_t>(entry.first_position);
  const std::size_t end = begin + static_cast<std::size_t>(entry.num_rows);
  if (state.tokens.size() < end) state.tokens.resize(end);
  for (std::size_t position = begin; position < end; ++position) {
    const TokenId token = tokens[position - begin];
    check_id(token, "token");
    state.tokens[position] = token;
  }
}

void Sampler::State::forget_jobs() {
  rows.clear();
  jobs.clear();
  leader_temperatures.clear();
  greedy_rows.clear();
  greedy_jobs.clear();
  has_best = false;
}

void Sampler::State::list_jobs(const StepPlan& plan) {
  result = StepResult{};
  result.id = plan.id;
  result.entries.reserve(plan.entries.size());  // jobs point into it
  forget_jobs();
  for_each_entry_with_logits(
      plan, [&](const StepEntry& entry, TokenId following, std::int32_t row) {
        StepResult::Entry& out = result.entries.emplace_back();
        out.slot = entry.slot;
        out.first_position = entry.first_position;
        out.sampled = entry.sample;
        const std::int32_t num_scored = num_scored_rows(entry, following);
        out.scored.resize(static_cast<std::size_t>(num_scored));
        for (std::int32_t i = 0; i < entry.num_rows; ++i) {
          RowJob job;
          job.slot = &slot(entry.slot);
          job.position = entry.first_position + i;
          const bool last = i + 1 == entry.num_rows;
          if (i < num_scored) {
            const std::int32_t next_row = row + i + 1;
            job.following = last ? following : plan.tokens[static_cast<std::size_t>(next_row)];
            check_id(job.following, "token");
            job.scored = &out.scored[static_cast<std::size_t>(i)];
          }
          if (entry.sample && last) job.sampled = &out.token;
          if (job.scored == nullptr && job.sampled == nullptr) continue;
          const bool greedy = job.takes_best();
          (greedy ? greedy_rows : rows).push_back(row + i);
          (greedy ? greedy_jobs : jobs).push_back(job);
          if (!greedy) leader_temperatures.push_back(job.leader_temperature());
        }
      });
}

std::span<RowJob> Sampler::State::jobs_of(IndexRange some) {
  if (some.begin < 0 || some.begin > some.end || some.end > static_cast<int>(jobs.size())) {
    throw std::invalid_argument("sampler: step " + std::to_string(result.id) + " has " +
                                std::to_string(jobs.size()) + " rows with logits, asked for [" +
                                std::to_string(some.begin) + ", " + std::to_string(some.end) + ")");
  }
  return std::span(jobs).subspan(static_cast<std::size_t>(some.begin),
                                 static_cast<std::size_t>(some.size()));
}

std::span<const std::int32_t> Sampler::rows_with_logits() const {
  return state_->rows;
}

std::span<const float> Sampler::leader_temperatures() const {
  return state_->leader_temperatures;
}

std::span<const std::int32_t> Sampler::greedy_rows() const {
  return state_->greedy_rows;
}

void Sampler::take_best(std::span<const BestLogit> best) {
  State& s = *state_;
  if (best.size() != s.greedy_jobs.size()) {
    throw std::invalid_argument("sampler: step " + std::to_string(s.result.id) + " has " +
                                std::to_string(s.greedy_jobs.size()) + " greedy rows, was given " +
                                std::to_string(best.size()));
  }
  for (std::size_t row = 0; row < best.size(); ++row) {
    const RowJob& job = s.greedy_jobs[row];
    if (!std::isfinite(best[row].value)) s.refuse_logits(job);
    s.check_id(best[row].id, "best token");
    *job.sampled = {};
    job.sampled->token = best[row].id;
  }
  s.has_best = true;
}

void Sampler::State::refuse_logits(const RowJob& job) const {
  throw std::runtime_error("sampler: the logits of step " + std::to_string(result.id) +
                           ", position " + std::to_string(job.position) +
                           " are not finite numbers");
}

void Sampler::State::take_statistics(std::span<RowJob> some,
                                     std::span<const RowStatistics> statistics) {
  for (std::size_t row = 0; row < some.size(); ++row) {
    some[row].log_sum_exp = statistics[row].log_sum_exp;
    if (!std::isfinite(some[row].log_sum_exp)) refuse_logits(some[row]);
  }
}

std::span<const IndexRange> Sampler::draw_from_leaders(int first,
                                                       std::span<const RowLeaders> leaders,
                                                       std::span<const RowStatistics> statistics) {
  State& s = *state_;
  if (leaders.size() != statistics.size()) {
    throw std::invalid_argument("sampler: leaders of " + std::to_string(leaders.size()) +
                                " rows, statistics of " + std::to_string(statistics.size()));
  }
  const int num_rows = static_cast<int>(leaders.size());
  const std::span<RowJob> jobs = s.jobs_of({first, first + num_rows});
  s.take_statistics(jobs, statistics);
  for (std::size_t row = 0; row < jobs.size(); ++row) jobs[row].leaders = &leaders[row];
  s.run_jobs(jobs);
  s.left.clear();
  for (int row = 0; row < num_rows; ++row) {
    RowJob& job = jobs[static_cast<std::size_t>(row)];
    job.leaders = nullptr;
    if (job.is_drawn) continue;
    if (s.left.empty() || s.left.back().end != row) s.left.push_back({row, row});
    ++s.left.back().end;
  }
  return s.left;
}

void Sampler::draw(int first, TensorView logits, std::span<const RowStatistics> statistics) {
  State& s = *state_;
  if (logits.cols != s.vocab_size || logits.dtype != DType::kFloat32 ||
      logits.rows != static_cast<std::int64_t>(statistics.size())) {
    throw std::invalid_argument("sampler: logits must be float32 [rows, " +
                                std::to_string(s.vocab_size) + "], with statistics for each row");
  }
  const std::span<RowJob> jobs = s.jobs_of({first, first + static_cast<int>(statistics.size())});
  s.take_statistics(jobs, statistics);
  for (std::size_t row = 0; row < jobs.size(); ++row) {
    jobs[row].logits = logits.f32() + row * static_cast<std::size_t>(s.vocab_size);
  }
  s.run_jobs(jobs);
}

void Sampler::append_drawn(IndexRange rows, std::vector<ScoredToken>& out) const {
  for (const RowJob& job : state_->jobs_of(rows)) {
    if (job.scored != nullptr) out.push_back(*job.scored);
    if (job.sampled != nullptr) out.push_back(*job.sampled);
  }
}

std::span<const ScoredToken> Sampler::fill_drawn(IndexRange rows,
                                                 std::span<const ScoredToken> drawn) {
  for (RowJob& job : state_->jobs_of(rows)) {
    for (ScoredToken* place : {job.scored, job.sampled}) {
      if (place == nullptr) continue;
      if (drawn.empty()) {
        throw std::runtime_error("sampler: another rank drew fewer tokens than its rows need");
      }
      *place = drawn.front();
      drawn = drawn.subspan(1);
    }
    job.is_drawn = true;
  }
  return drawn;
}

StepResult Sampler::take_result() {
  State& s = *state_;
  const auto num_drawn = std::ranges::count_if(s.jobs, &RowJob::is_drawn);
  if (num_drawn != std::ssize(s.jobs)) {
    throw std::logic_error("sampler: step " + std::to_string(s.result.id) + " needs " +
                           std::to_string(s.jobs.size()) + " rows of logits, was given " +
                           std::to_string(num_drawn));
  }
  if (!s.greedy_jobs.empty() && !s.has_best) {
    throw std::logic_error("sampler: step " + std::to_string(s.result.id) +
                           " has greedy rows, and was not given their best logits");
  }
  s.forget_jobs();
  return std::move(s.result);
}

// Threads take the next row as they become free, since rows differ in cost.
void Sampler::State::run_jobs(std::span<RowJob> some) {
  std::atomic<std::size_t> next_job = 0;
  const auto work = [&](int worker) {
    for (std::size_t i = next_job++; i < some.size(); i = next_job++) {
      if (!some[i].is_drawn) workers[static_cast<std::size_t>(worker)].run(some[i]);
    }
  };
  if (pool == nullptr || some.size() < 2) {
    work(0);
  } else {
    pool->parallel_for(static_cast<int>(workers.size()), work);
  }
}

}  // namespace headrace
