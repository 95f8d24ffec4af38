// The life of every stage but the first: take a step, run the layers, pass it on; on the last stage
// send what was drawn back to the head. Decides nothing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/message_channel.h"
#include "kernels/buffer.h"
#include "runtime/pipeline/stage_executor.h"
#include "runtime/pipeline/stage_times.h"

namespace headrace {

struct StepMessage;

/// Borrowed; all must outlive the stage.
struct RelayLinks {
  MessageReceiver* upstream = nullptr;
  MessageSender* downstream = nullptr;  // null on the last stage
  MessageSender* results = nullptr;     // to the head; only on the last stage
};

struct RelaySettings {
  int stage = 0;
  int num_stages = 1;
  int hidden_size = 0;
  int max_rows = 0;
  double stall_timeout_s = 0.0;
  std::string upstream_name;  // for messages: "rank 0 on host a (stage 0)"
  std::string downstream_name;
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
  void answer(const StepMessage& message);

  StageExecutor& executor_;
  RelayLinks links_;
  RelaySettings settings_;
  StageTimes times_;
  Buffer hidden_;  // of the last stage
  std::vector<std::byte> result_;
};

}  // namespace headrace
