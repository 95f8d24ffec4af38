#include "tests/fake_cuda/nccl_operation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/fake_cuda/lock.h"
#include "tests/fake_cuda/sanitizers.h"
#include "tests/fake_cuda/state.h"
#include "tests/fake_cuda/streams.h"

namespace headrace::fake_cuda {
namespace {

struct Turns {
  std::int64_t next = 0;
  std::set<std::int64_t> unfinished;  // of the whole process
};

Turns& turns() {
  static Turns& all = *new Turns;
  return all;
}

struct Group {
  std::vector<NcclCall> calls;
  std::int64_t number = 0;
  bool serial = false;
  bool begun = false;
};

bool is_first(const std::set<std::int64_t>& unfinished, std::int64_t number) {
  return !unfinished.empty() && *unfinished.begin() == number;
}

bool has_turn(const Group& group) {
  const Locked locked;
  if (group.serial && !is_first(turns().unfinished, group.number)) return false;
  return std::all_of(group.calls.begin(), group.calls.end(), [&](const NcclCall& call) {
    return call.comm->aborted || is_first(call.comm->unfinished, group.number);
  });
}

bool is_aborted(ncclComm_t comm) {
  const Locked locked;
  return comm->aborted;
}

bool is_broken(ncclComm_t comm) {
  const Locked locked;
  return comm->error != ncclSuccess;
}

void push(Pipe& pipe, Transfer& transfer) {
  if (__atomic_load_n(&pipe.full, __ATOMIC_ACQUIRE) != 0) return;
  if (transfer.begun && transfer.moved == transfer.bytes) {
    transfer.done = true;
    return;
  }
  const std::size_t count = std::min(Pipe::kBytes, transfer.bytes - transfer.moved);
  tell_read(transfer.data + transfer.moved, count);
  const OwnBusiness own;
  pipe.kind = transfer.kind;
  if (count > 0) std::memcpy(pipe.data, transfer.data + transfer.moved, count);
  transfer.moved += count;
  transfer.begun = true;
  __atomic_store_n(&pipe.full, 1U, __ATOMIC_RELEASE);
}

std::string text_of(const MessageKind& kind) {
  return "operation " + std::to_string(kind.operation) + " with " + std::to_string(kind.count) +
         " elements of type " + std::to_string(kind.type);
}

void pull(Pipe& pipe, Transfer& transfer, ncclComm_t comm) {
  if (__atomic_load_n(&pipe.full, __ATOMIC_ACQUIRE) == 0) return;
  if (!(pipe.kind == transfer.kind)) {
    break_communicator(comm, ncclInvalidUsage,
                       "rank " + std::to_string(comm->rank) + " expects " + text_of(transfer.kind) +
                           " from rank " + std::to_string(transfer.peer) + ", which sends " +
                           text_of(pipe.kind));
    return;
  }
  const std::size_t count = std::min(Pipe::kBytes, transfer.bytes - transfer.moved);
  tell_written(transfer.data + transfer.moved, count);
  const OwnBusiness own;
  if (count > 0) std::memcpy(transfer.data + transfer.moved, pipe.data, count);
  transfer.moved += count;
  transfer.done = transfer.moved == transfer.bytes;
  __atomic_store_n(&pipe.full, 0U, __ATOMIC_RELEASE);
}

// Transfers with the same peer in the same direction go one after another, over all calls.
bool is_next(const Group& group, const NcclCall& call, const Transfer& transfer) {
  for (const NcclCall& other_call : group.calls) {
    for (const Transfer& other : other_call.transfers) {
      if (&other == &transfer) return true;
      if (!other.done && other_call.comm == call.comm && other.peer == transfer.peer &&
          other.direction == transfer.direction) {
        return false;
      }
    }
  }
  return true;
}

void advance_call(const Group& group, NcclCall& call) {
  for (Transfer& transfer : call.transfers) {
    if (transfer.done || !is_next(group, call, transfer)) continue;
    const bool sends = transfer.direction == Transfer::Direction::kSend;
    Pipe& pipe = sends ? call.comm->group->pipe(call.comm->rank, transfer.peer)
                       : call.comm->group->pipe(transfer.peer, call.comm->rank);
    if (sends) {
      push(pipe, transfer);
    } else {
      pull(pipe, transfer, call.comm);
    }
  }
  const bool all = std::all_of(call.transfers.begin(), call.transfers.end(),
                               [](const Transfer& transfer) { return transfer.done; });
  if (!all) return;
  if (call.finish) call.finish();
  call.finished = true;
}

// One look at all calls; true when they have ended.
bool advance(Group& group) {
  for (NcclCall& call : group.calls) {
    if (is_aborted(call.comm)) call.finished = true;
  }
  if (!has_turn(group)) return false;
  if (!std::exchange(group.begun, true) && fails("nccl")) {
    break_communicator(group.calls.front().comm, ncclRemoteError, "a failure that was asked for");
  }
  bool all = true;
  for (NcclCall& call : group.calls) {
    if (!call.finished && !is_broken(call.comm)) advance_call(group, call);
    all = all && call.finished;
  }
  return all;
}

void end(const Group& group) {
  const Locked locked;
  turns().unfinished.erase(group.number);
  for (const NcclCall& call : group.calls) call.comm->unfinished.erase(group.number);
}

}  // namespace

void enqueue_calls(cudaStream_t stream, std::vector<NcclCall> calls) {
  auto* group = new Group;  // the operation's, which may be copied but runs once
  group->calls = std::move(calls);
  group->serial = settings().serial_nccl;
  {
    const Locked locked;
    group->number = turns().next++;
    turns().unfinished.insert(group->number);
    for (const NcclCall& call : group->calls) call.comm->unfinished.insert(group->number);
  }
  enqueue(stream, [group] {
    if (!advance(*group)) return false;
    end(*group);
    delete group;
    return true;
  });
}

bool is_busy(ncclComm_t comm) {
  const Locked locked;
  return !comm->unfinished.empty();
}

void break_communicator(ncclComm_t comm, ncclResult_t error, const std::string& text) {
  {
    const Locked locked;
    if (comm->error != ncclSuccess) return;
    comm->error = error;
    comm->error_text = text;
  }
  report("NCCL: " + text);
}

}  // namespace headrace::fake_cuda
