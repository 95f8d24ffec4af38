#include "runtime/pipeline/relay_stage.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "comm/waiting.h"
#include "runtime/pipeline/step_message.h"

namespace headrace {

RelayStage::RelayStage(StageExecutor& executor, RelayLinks links, RelaySettings settings)
    : executor_(executor),
      links_(std::move(links)),
      settings_(std::move(settings)),
      hidden_(executor.arena(),
              {.max_rows = settings_.max_rows,
               .hidden_size = settings_.hidden_size,
               .passed_on = links_.downstream != nullptr},
              links_.hidden) {}

void RelayStage::run() {
  while (take_step()) {
  }
  MessageSender* sender = links_.results != nullptr ? links_.results : links_.downstream;
  if (sender == nullptr) return;
  Waiting waiting(settings_.downstream_name + " to take the last message",
                  settings_.stall_timeout_s);
  while (!sender->drained() || !hidden_.drained()) waiting.pause();
}

std::span<const std::byte> RelayStage::wait_for_step() {
  const ScopedTime time(times_.wait_ns);
  const ScopedPhase phase(settings_.recorder, Phase::kWait);
  Waiting waiting("a step from " + settings_.upstream_name, settings_.stall_timeout_s);
  for (;;) {
    if (auto bytes = links_.upstream->try_receive()) return *bytes;
    if (links_.downstream != nullptr) links_.downstream->poll();
    if (links_.results != nullptr) links_.results->poll();
    hidden_.poll();
    waiting.pause();
  }
}

std::span<std::byte> RelayStage::wait_for_buffer(MessageSender& sender, const std::string& peer) {
  Waiting waiting("room to send to " + peer, settings_.stall_timeout_s);
  for (;;) {
    if (auto buffer = sender.try_acquire()) return *buffer;
    links_.upstream->poll();
    hidden_.poll();
    waiting.pause();
  }
}

bool RelayStage::take_step() {
  // Of the message: the first stage makes the states itself.
  const int hidden_size =
      settings_.stage == 0 ? 0 : links_.hidden.received_in_messages(settings_.hidden_size);
  const StepMessage message = read_step_message(wait_for_step(), hidden_size);
  const bool last = message.plan.last;
  SpanRecorder* recorder = settings_.recorder;
  if (recorder != nullptr) recorder->set_step(message.plan.id, message.plan.num_rows());
  if (links_.downstream != nullptr) {
    pass_on(message);
  } else {
    end(message);
  }
  if (recorder != nullptr && message.plan.num_rows() > 0) recorder->mark_worked();
  return !last;
}

void RelayStage::pass_on(const StepMessage& message) {
  std::span<std::byte> buffer;
  std::span<std::byte> room;
  TensorView hidden;
  {
    const ScopedTime time(times_.transfer_ns);
    const ScopedPhase phase(settings_.recorder, Phase::kReceive);
    buffer = wait_for_buffer(*links_.downstream, settings_.downstream_name);
    room = write_step_message(buffer, message.times, message.plan_bytes, message.plan.num_rows(),
                              links_.hidden.sent_in_messages(settings_.hidden_size));
    hidden = hidden_.take_in(message.plan.num_rows(), message.hidden, room);
    links_.upstream->release();
  }
  {
    const ScopedTime time(times_.busy_ns);
    const ScopedPhase phase(settings_.recorder, Phase::kLayers);
    executor_.forward(message.plan, hidden);
    hidden_.give_out(hidden, room);
  }
  const ScopedTime time(times_.transfer_ns);
  const ScopedPhase phase(settings_.recorder, Phase::kSend);
  set_stage_times(buffer, settings_.stage, times_);
  links_.downstream->post(step_message_bytes(buffer, room));
}

void RelayStage::end(const StepMessage& message) {
  TensorView hidden;
  {
    const ScopedTime time(times_.transfer_ns);
    const ScopedPhase phase(settings_.recorder, Phase::kReceive);
    hidden = hidden_.take_in(message.plan.num_rows(), message.hidden, {});
    links_.upstream->release();
  }
  StepResult result;
  {
    const ScopedTime time(times_.busy_ns);
    {
      const ScopedPhase phase(settings_.recorder, Phase::kLayers);
      executor_.forward(message.plan, hidden);
    }
    const ScopedPhase phase(settings_.recorder, Phase::kSampling);
    result = executor_.sample(message.plan, hidden);
    hidden_.give_out(hidden, {});
  }
  if (links_.results != nullptr) answer(message, result);
}

void RelayStage::answer(const StepMessage& message, const StepResult& result) {
  const ScopedTime time(times_.transfer_ns);
  const ScopedPhase phase(settings_.recorder, Phase::kSend);
  std::vector<StageTimes> times = message.times;
  times.at(static_cast<std::size_t>(settings_.stage)) = times_;
  write_result_message(times, result, result_);
  const std::span<std::byte> buffer = wait_for_buffer(*links_.results, settings_.downstream_name);
  if (result_.size() > buffer.size()) {
    throw std::logic_error("a result of " + std::to_string(result_.size()) +
                           " bytes does not fit the buffer of " + std::to_string(buffer.size()));
  }
  std::memcpy(buffer.data(), result_.data(), result_.size());
  links_.results->post(result_.size());
}

}  // namespace headrace
