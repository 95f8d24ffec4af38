// What a call of the fake NCCL puts on a stream: transfers through the pipes of a communicator.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/fake_cuda/shared_group.h"

struct ncclComm {
  std::unique_ptr<headrace::fake_cuda::SharedGroup> group;
  int rank = 0;
  int device = 0;
  bool blocking = true;
  bool ready = false;      // all have joined
  bool finalized = false;  // asked for
  bool aborted = false;
  int polls_in_progress = 0;  // so often does ncclCommGetAsyncError still say "in progress"
  ncclResult_t error = ncclSuccess;
  std::string error_text;
  std::set<std::int64_t> unfinished;  // numbers of its operations: they run in order
  int num_splits = 0;
  struct {
    ncclComm_t* target = nullptr;  // a split under way
    int color = 0;
    bool blocking = true;
  } split;
};

namespace headrace::fake_cuda {

/// One direction between two ranks.
struct Transfer {
  enum class Direction : std::uint8_t { kSend, kReceive };

  Direction direction = Direction::kSend;
  int peer = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  MessageKind kind;
  std::size_t moved = 0;
  bool begun = false;
  bool done = false;
};

/// A call: its transfers, and what remains to be done after them.
struct NcclCall {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Transfer> transfers;
  std::vector<float> parts;  // of everybody, where they are added
  std::function<void()> finish;
  bool finished = false;
};

/// Queues the calls of a group, all of one stream, as one operation.
void enqueue_calls(cudaStream_t stream, std::vector<NcclCall> calls);

/// True while an operation of the communicator is unfinished.
bool is_busy(ncclComm_t comm);

/// The communicator has failed; its operations never end, until it is aborted.
void break_communicator(ncclComm_t comm, ncclResult_t error, const std::string& text);

}  // namespace headrace::fake_cuda
