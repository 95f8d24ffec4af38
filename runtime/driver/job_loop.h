// The loop of rank 0's main thread: sequences from the host side into the scheduler, steps into the
// pipeline, results back. Ends when every line is answered or a signal asks to stop.
#pragma once

#include <functional>

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

/// Drives the job to its end. On kStopped and kStoppedInFlight the host side has written and synced
/// everything; on kFinished it has been joined.
LoopEnd run_job_loop(HostSide& host, Scheduler& scheduler, ReplicaHead& head,
                     const LoopSettings& settings);

}  // namespace headrace
