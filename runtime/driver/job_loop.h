// The loop of rank 0's main thread: sequences from the host side to the replicas, its own replica's
// steps into the pipeline, results back. Ends when every line is answered or a signal asks to stop.
#pragma once

#include <functional>

#include "runtime/dispatch/dispatcher.h"
#include "runtime/driver/host_side.h"
#include "runtime/pipeline/replica_head.h"
#include "runtime/schedule/scheduler.h"

namespace headrace {

enum class LoopEnd {
  kFinished,
  kStopped,          // by a signal, with nothing left in the pipeline
  kStoppedInFlight,  // by a signal; steps did not come back in time
};

struct LoopSettings {
  /// Called a few times a second with the seconds since the loop began.
  std::function<void(double)> on_tick;
  /// Nonzero asks the loop to stop.
  std::function<int()> stop_requested;
};

/// What the loop drives; scheduler and head are those of rank 0's own replica.
struct LoopParts {
  HostSide& host;
  Dispatcher& dispatcher;
  Scheduler& scheduler;
  ReplicaHead& head;
};

/// Drives the job to its end. On kStopped and kStoppedInFlight the host side has written and synced
/// everything; on kFinished it has been joined. But for kStoppedInFlight all pipelines have ended.
LoopEnd run_job_loop(LoopParts parts, const LoopSettings& settings);

}  // namespace headrace
