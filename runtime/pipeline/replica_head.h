// The head of a pipeline: the scheduler, its rank's part of the first stage, and the way back of
// the results. The only place where it is decided what runs. One thread drives it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "comm/message_channel.h"
#include "kernels/span_recorder.h"
#include "runtime/pipeline/hidden_states.h"
#include "runtime/pipeline/stage_executor.h"
#include "runtime/pipeline/stage_times.h"
#include "runtime/schedule/scheduler.h"

namespace headrace {

/// Borrowed. downstream and results are null where the first stage is the only one.
struct HeadLinks {
  std::vector<MessageSender*> peers;  // to the ranks that share the first stage
  MessageSender* downstream = nullptr;
  MessageReceiver* results = nullptr;
  HiddenLinks hidden = {};
};

struct HeadSettings {
  int num_stages = 1;
  int hidden_size = 0;
  int max_rows = 0;
  double stall_timeout_s = 0.0;
  std::string downstream_name;       // for messages: "rank 1 on host b (stage 1)"
  std::string last_name;             // of whom results come from
  SpanRecorder* recorder = nullptr;  // of a trace; null without one
};

/// What the job counts about its steps.
struct HeadCounters {
  std::int64_t steps = 0;
  std::int64_t rows = 0;
  std::int64_t host_ns = 0;  // planning, encoding, taking results in
};

class ReplicaHead {
 public:
  ReplicaHead(Scheduler& scheduler, StageExecutor& executor, HeadLinks links,
              HeadSettings settings);

  /// Starts the next step if the pipeline has room and there is one: runs the first stage and sends
  /// it on. False where nothing was done.
  bool start_step();

  /// Takes in one finished step if there is one.
  bool take_result(std::vector<SequenceEvent>& events);

  /// Call when neither did anything: pauses, keeps the pipeline known to be alive by an empty step
  /// now and then, and throws std::runtime_error when a result stays out for the stall timeout.
  void wait();

  /// Steps that have started and whose results are not back.
  int num_in_flight() const { return static_cast<int>(in_flight_.size()); }

  /// Tells all stages that nothing follows and waits until the last one has answered.
  void finish();

  /// Lets transfers advance; for poll callbacks.
  void poll();

  /// Of all stages, as last heard.
  const std::vector<StageTimes>& times() const { return times_; }
  const HeadCounters& counters() const { return counters_; }

 private:
  bool has_others() const { return links_.downstream != nullptr || !links_.peers.empty(); }
  bool has_room();
  void submit(const StepPlan& plan);
  void forward(const StepPlan& plan, TensorView hidden);
  void mark_worked();
  void tell_peers(const StepPlan& plan);
  void run_alone(const StepPlan& plan);
  void run_first(const StepPlan& plan);
  std::optional<StepResult> try_result();

  Scheduler& scheduler_;
  StageExecutor& executor_;
  HeadLinks links_;
  HeadSettings settings_;
  HeadCounters counters_;
  std::vector<StageTimes> times_;
  std::deque<StepId> in_flight_;        // the scheduler's steps and, as kAlive, those that only ask
  std::deque<StepResult> own_results_;  // where there is no other stage
  HiddenStates hidden_;
  std::vector<std::byte> plan_bytes_;
  std::int64_t last_heard_ns_ = 0;  // of any result
  std::int64_t idle_since_ns_ = 0;  // start of the current pause
};

}  // namespace headrace
