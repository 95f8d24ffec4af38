// The life of every rank of a pipeline but its head: take a step, run the layers, pass it on; on
// the last stage send what was drawn back to the head. Decides nothing. A rank that shares the
// first stage with the head gets steps without hidden states and makes them itself.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/message_channel.h"
#include "kernels/span_recorder.h"
#include "runtime/pipeline/hidden_states.h"
#include "runtime/pipeline/stage_executor.h"
#include "runtime/pipeline/stage_times.h"

namespace headrace {

struct StepMessage;

/// Borrowed; all must outlive the stage.
struct RelayLinks {
  MessageReceiver* upstream = nullptr;
  MessageSender* downstream = nullptr;  // null on the last stage
  MessageSender* results = nullptr;     // to the head; only from the last stage's first rank
  HiddenLinks hidden = {};
};

struct RelaySettings {
  int stage = 0;
  int hidden_size = 0;
  int max_rows = 0;
  double stall_timeout_s = 0.0;
  std::string upstream_name;  // for messages: "rank 0 on host a (stage 0)"
  std::string downstream_name;
  SpanRecorder* recorder = nullptr;  // of a trace; null without one
};

class RelayStage {
 public:
  RelayStage(StageExecutor& executor, RelayLinks links, RelaySettings settings);

  /// Takes steps until the one that says it is the last has been passed on.
  void run();

  const StageTimes& times() const { return times_; }

 private:
  std::span<const std::byte> wait_for_step();
  std::span<std::byte> wait_for_buffer(MessageSender& sender, const std::string& peer);
  bool take_step();
  void pass_on(const StepMessage& message);
  void end(const StepMessage& message);
  void answer(const StepMessage& message, const StepResult& result);

  StageExecutor& executor_;
  RelayLinks links_;
  RelaySettings settings_;
  StageTimes times_;
  HiddenStates hidden_;
  std::vector<std::byte> result_;
};

}  // namespace headrace
