// A small job over a transport: stages in a line, each a tensor group, steps double-buffered
// through them. All numbers are whole and small, so that every sum is exact and known.
#pragma once

#include "comm/device_transport.h"

namespace headrace::testing_transport {

struct PipelineJob {
  TransportKind kind = TransportKind::kNccl;
  int group_size = 1;  // has to divide the ranks
  int num_steps = 12;
  double stall_timeout_s = 20.0;
  // From half of the steps on, one of the ranks takes no part any more and waits for the end, or
  // sends plans without what belongs to them.
  int silent_rank = -1;
  int mute_rank = -1;
};

/// Runs it on this rank, on the device of its number where there are as many, and returns how many
/// values are wrong in what it knows of the result. Collective over the communicator.
int run_pipeline(const Communicator& communicator, const PipelineJob& job);

}  // namespace headrace::testing_transport
