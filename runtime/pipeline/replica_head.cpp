#include "runtime/pipeline/replica_head.h"

#include <stdexcept>
#include <thread>
#include <utility>

#include "comm/waiting.h"
#include "runtime/pipeline/step_message.h"

namespace headrace {
namespace {

// The id of an empty step: it only shows that every stage still answers.
constexpr StepId kAlive = -1;
// The id of the step after which nothing follows.
constexpr StepId kLast = -2;

// Empty steps are sent when nothing was heard for this part of the stall timeout.
constexpr double kAliveInterval = 0.25;

}  // namespace

ReplicaHead::ReplicaHead(Scheduler& scheduler, StageExecutor& executor, HeadLinks links,
                         HeadSettings settings)
    : scheduler_(scheduler),
      executor_(executor),
      links_(std::move(links)),
      settings_(std::move(settings)),
      times_(static_cast<std::size_t>(settings_.num_stages)),
      hidden_(executor.arena(),
              {.max_rows = settings_.max_rows,
               .hidden_size = settings_.hidden_size,
               .passed_on = links_.downstream != nullptr},
              links_.hidden),
      last_heard_ns_(now_ns()) {}

void ReplicaHead::poll() {
  for (MessageSender* peer : links_.peers) peer->poll();
  if (links_.downstream == nullptr) return;
  links_.downstream->poll();
  links_.results->poll();
}

// Every link has a free buffer.
bool ReplicaHead::has_room() {
  for (MessageSender* peer : links_.peers) {
    if (!peer->try_acquire()) return false;
  }
  if (links_.downstream == nullptr) return true;
  return links_.downstream->try_acquire().has_value() && hidden_.has_room();
}

bool ReplicaHead::start_step() {
  // A step that the scheduler gave must be sent, so make sure of room first.
  if (!has_room()) return false;
  const std::int64_t start = now_ns();
  ScopedPhase planning(settings_.recorder, Phase::kPlan);
  std::optional<StepPlan> plan = scheduler_.next();
  counters_.host_ns += now_ns() - start;
  if (!plan) {
    planning.withdraw();
    return false;
  }
  planning.end();
  counters_.steps += 1;
  counters_.rows += plan->num_rows();
  submit(*plan);
  return true;
}

void ReplicaHead::submit(const StepPlan& plan) {
  idle_since_ns_ = 0;
  if (in_flight_.empty()) last_heard_ns_ = now_ns();
  in_flight_.push_back(plan.id);
  if (settings_.recorder != nullptr) settings_.recorder->set_step(plan.id, plan.num_rows());
  if (has_others()) {
    const std::int64_t start = now_ns();
    const ScopedPhase phase(settings_.recorder, Phase::kPlan);
    plan_bytes_.clear();
    encode(plan, plan_bytes_);
    counters_.host_ns += now_ns() - start;
  }
  tell_peers(plan);
  if (links_.downstream == nullptr) {
    run_alone(plan);
  } else {
    run_first(plan);
  }
  if (plan.num_rows() > 0) mark_worked();
}

void ReplicaHead::mark_worked() {
  if (settings_.recorder != nullptr) settings_.recorder->mark_worked();
}

void ReplicaHead::forward(const StepPlan& plan, TensorView hidden) {
  const ScopedPhase phase(settings_.recorder, Phase::kLayers);
  executor_.forward(plan, hidden);
}

// The ranks that share the stage get the plan alone: the hidden states are theirs to make.
void ReplicaHead::tell_peers(const StepPlan& plan) {
  if (links_.peers.empty()) return;
  const ScopedPhase phase(settings_.recorder, Phase::kSend);
  for (MessageSender* peer : links_.peers) {
    const std::optional<std::span<std::byte>> buffer = peer->try_acquire();
    if (!buffer) throw std::logic_error("a step was submitted with no buffer free");
    const std::span<std::byte> none =
        write_step_message(*buffer, times_, plan_bytes_, plan.num_rows(), /*hidden_size=*/0);
    peer->post(step_message_bytes(*buffer, none));
  }
}

void ReplicaHead::run_alone(const StepPlan& plan) {
  const ScopedTime time(times_[0].busy_ns);
  const TensorView hidden = hidden_.take_in(plan.num_rows(), {}, {});
  forward(plan, hidden);
  const ScopedPhase phase(settings_.recorder, Phase::kSampling);
  own_results_.push_back(executor_.sample(plan, hidden));
}

void ReplicaHead::run_first(const StepPlan& plan) {
  const std::optional<std::span<std::byte>> buffer = links_.downstream->try_acquire();
  if (!buffer) throw std::logic_error("a step was submitted with no buffer free");
  const std::span<std::byte> room =
      write_step_message(*buffer, times_, plan_bytes_, plan.num_rows(),
                         links_.hidden.sent_in_messages(settings_.hidden_size));
  {
    const ScopedTime time(times_[0].busy_ns);
    const TensorView hidden = hidden_.take_in(plan.num_rows(), {}, room);
    forward(plan, hidden);
    hidden_.give_out(hidden, room);
  }
  const ScopedTime time(times_[0].transfer_ns);
  const ScopedPhase phase(settings_.recorder, Phase::kSend);
  set_stage_times(*buffer, 0, times_[0]);
  links_.downstream->post(step_message_bytes(*buffer, room));
}

std::optional<StepResult> ReplicaHead::try_result() {
  hidden_.poll();
  std::optional<StepResult> result;
  if (links_.results == nullptr) {
    if (own_results_.empty()) return std::nullopt;
    result = std::move(own_results_.front());
    own_results_.pop_front();
  } else {
    const auto bytes = links_.results->try_receive();
    if (!bytes) return std::nullopt;
    const StageTimes own = times_[0];
    result = read_result_message(*bytes, times_);
    times_.at(0) = own;
    links_.results->release();
  }
  if (in_flight_.empty() || in_flight_.front() != result->id) {
    throw std::logic_error("the result of step " + std::to_string(result->id) +
                           " came out of order");
  }
  in_flight_.pop_front();
  last_heard_ns_ = now_ns();
  return result;
}

bool ReplicaHead::take_result(std::vector<SequenceEvent>& events) {
  ScopedPhase taking(settings_.recorder, Phase::kResults);
  const std::optional<StepResult> result = try_result();
  if (!result) {
    taking.withdraw();
    return false;
  }
  idle_since_ns_ = 0;
  if (result->id < 0) return true;
  const std::int64_t start = now_ns();
  std::vector<SequenceEvent> found = scheduler_.complete(*result);
  events.insert(events.end(), std::make_move_iterator(found.begin()),
                std::make_move_iterator(found.end()));
  counters_.host_ns += now_ns() - start;
  taking.end();
  mark_worked();
  return true;
}

void ReplicaHead::wait() {
  const ScopedTime time(times_[0].wait_ns);
  const ScopedPhase phase(settings_.recorder, Phase::kWait);
  const std::int64_t now = now_ns();
  if (idle_since_ns_ == 0) idle_since_ns_ = now;
  const double silent_s = seconds_since(last_heard_ns_);
  if (settings_.stall_timeout_s > 0 && has_others()) {
    if (!in_flight_.empty() && silent_s > settings_.stall_timeout_s) {
      throw_stalled(settings_.stall_timeout_s, "for the result of step " +
                                                   std::to_string(in_flight_.front()) + " from " +
                                                   settings_.last_name);
    }
    if (in_flight_.empty() && silent_s > settings_.stall_timeout_s * kAliveInterval && has_room()) {
      StepPlan alive;
      alive.id = kAlive;
      submit(alive);
      return;
    }
  }
  pause_politely(now - idle_since_ns_);
}

void ReplicaHead::finish() {
  if (!has_others()) return;
  Waiting room("room to send to " + settings_.downstream_name, settings_.stall_timeout_s);
  while (!has_room()) {
    try_result();
    room.pause();
  }
  StepPlan last;
  last.id = kLast;
  last.last = true;
  submit(last);
  Waiting answer("the last answer of " + settings_.last_name, settings_.stall_timeout_s);
  while (!in_flight_.empty()) {
    if (!try_result()) answer.pause();
  }
  for (MessageSender* peer : links_.peers) {
    while (!peer->drained()) answer.pause();
  }
  while (!hidden_.drained()) answer.pause();
}

}  // namespace headrace
