// The loop of another replica's head: work from rank 0 into the scheduler, steps into the pipeline,
// events back. Knows neither files nor text.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "comm/message_channel.h"
#include "runtime/dispatch/work_message.h"
#include "runtime/pipeline/replica_head.h"
#include "runtime/schedule/scheduler.h"

namespace headrace {

/// To rank 0. Borrowed; must outlive the loop.
struct DispatcherLink {
  MessageReceiver* work = nullptr;
  MessageSender* reports = nullptr;
  std::string name;  // for messages: "rank 0 on host a"
  double stall_timeout_s = 0.0;
};

/// Runs until rank 0 orders the end; then the pipeline has ended too.
class ReplicaLoop {
 public:
  ReplicaLoop(DispatcherLink link, Scheduler& scheduler, ReplicaHead& head);

  void run();

 private:
  bool take_work();
  void add(WorkMessage message);
  void update_done();
  void report();
  void finish();

  DispatcherLink link_;
  Scheduler& scheduler_;
  ReplicaHead& head_;
  WorkOrder order_ = WorkOrder::kRun;
  WorkOrder done_ = WorkOrder::kRun;
  WorkOrder reported_ = WorkOrder::kRun;
  std::vector<SequenceEvent> found_;  // since the last turn
  std::deque<SequenceEvent> events_;  // not reported yet
  std::int64_t last_heard_ns_ = 0;
  std::int64_t last_report_ns_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace headrace
