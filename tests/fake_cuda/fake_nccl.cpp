// NCCL between processes of one machine, in host memory, over pipes that they share. Behaves as
// version 2.28 says it does: two ranks on one device are refused; a communicator that does not
// block says "in progress" for a while after each call, and must not be used meanwhile; operations
// of a communicator run in the order of their calls. What hangs or breaks the real one is refused
// or reported: sizes and orders that do not match, splits while something is under way, one group
// on several streams, and no NCCL_LAUNCH_ORDER_IMPLICIT.
#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/cuda/nccl_library.h"
#include "tests/fake_cuda/lock.h"
#include "tests/fake_cuda/nccl_operation.h"
#include "tests/fake_cuda/sanitizers.h"
#include "tests/fake_cuda/state.h"
#include "tests/fake_cuda/streams.h"

namespace headrace::fake_cuda {
namespace {

enum Operation : std::uint32_t { kSendReceive, kAllReduce, kAllGather, kBroadcast };

struct OpenGroup {
  int depth = 0;
  std::vector<NcclCall> calls;
  ncclResult_t error = ncclSuccess;
};
thread_local OpenGroup open_group;
thread_local std::string last_error;

ncclResult_t refuse(ncclResult_t result, const std::string& text) {
  report("NCCL: " + text);
  last_error = text;
  return result;
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

void wait_while_busy(const auto& busy) {
  constexpr int kLookUs = 50;
  while (busy()) sleep_us(kLookUs);
}

// Looks how far a communicator has come that was made but not joined by all.
void advance_joining(ncclComm_t comm) {
  if (comm->ready || !comm->group->all_joined()) return;
  comm->ready = true;
  for (int rank = 0; rank < comm->group->size(); ++rank) {
    if (rank == comm->rank || comm->group->device(rank) != comm->group->device(comm->rank)) {
      continue;
    }
    break_communicator(comm, ncclInvalidUsage,
                       "Duplicate GPU detected: rank " + std::to_string(comm->rank) + " and rank " +
                           std::to_string(rank) + " both on one device");
    return;
  }
}

ncclComm_t make_comm(const std::string& name, int size, int rank, bool blocking) {
  auto* comm = new ncclComm;
  comm->group = std::make_unique<SharedGroup>(name, size);
  comm->rank = rank;
  comm->device = current_device();
  comm->blocking = blocking;
  comm->group->join(rank, physical_device(comm->device));
  return comm;
}

void advance_split(ncclComm_t parent) {
  if (parent->split.target == nullptr || !parent->group->all_posted(parent->num_splits)) return;
  int rank = 0;
  int size = 0;
  parent->group->result_of_split(parent->num_splits, parent->rank, rank, size);
  ncclComm_t child = nullptr;
  if (parent->split.color != NCCL_SPLIT_NOCOLOR) {
    child = make_comm(parent->group->name() + "-" + std::to_string(parent->num_splits) + "-" +
                          std::to_string(parent->split.color),
                      size, rank, parent->split.blocking);
  }
  *std::exchange(parent->split.target, nullptr) = child;
  ++parent->num_splits;
}

// Where a communicator stands, having looked after what it is doing.
ncclResult_t progress_of(ncclComm_t comm) {
  advance_joining(comm);
  advance_split(comm);
  const Locked locked;
  if (comm->error != ncclSuccess) return comm->error;
  if (!comm->ready || comm->split.target != nullptr) return ncclInProgress;
  if (comm->finalized && (!comm->unfinished.empty() || !comm->group->all_left())) {
    return ncclInProgress;
  }
  if (comm->polls_in_progress > 0) {
    --comm->polls_in_progress;
    return ncclInProgress;
  }
  return ncclSuccess;
}

// What a call that has begun returns.
ncclResult_t begun(ncclComm_t comm) {
  if (!comm->blocking) {
    comm->polls_in_progress = 1;
    return ncclInProgress;
  }
  ncclResult_t result = ncclInProgress;
  wait_while_busy([&] { return (result = progress_of(comm)) == ncclInProgress; });
  return result;
}

ncclResult_t check_usable(const char* call, ncclComm_t comm) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, std::string(call) + ": no communicator");
  if (fails(call)) return refuse(ncclSystemError, std::string(call) + ": a failure asked for");
  if (comm->error != ncclSuccess) return comm->error;
  if (!comm->ready || comm->polls_in_progress > 0 || comm->split.target != nullptr ||
      comm->finalized) {
    return refuse(ncclInvalidArgument,
                  std::string(call) + ": the communicator is not ready for another call");
  }
  return ncclSuccess;
}

ncclResult_t check_buffer(const char* call, const void* data, std::size_t bytes) {
  Memory kind = Memory::kPageable;
  if (!find_memory(call, data, bytes, kind)) return ncclInvalidArgument;
  if (kind == Memory::kDevice || bytes == 0) return ncclSuccess;
  return refuse(ncclInvalidArgument, std::string(call) + ": a buffer that is not on the device");
}

// Queues the calls that were collected, a group for each stream.
ncclResult_t end_group() {
  std::vector<NcclCall> calls = std::exchange(open_group.calls, {});
  if (open_group.error != ncclSuccess) return std::exchange(open_group.error, ncclSuccess);
  std::set<ncclComm_t> comms;
  for (const NcclCall& call : calls) {
    comms.insert(call.comm);
    if (call.stream != calls.front().stream) {
      return refuse(ncclInvalidUsage, "a group on several streams");
    }
  }
  if (calls.empty()) return ncclSuccess;
  const cudaStream_t stream = calls.front().stream;
  enqueue_calls(stream, std::move(calls));
  ncclResult_t result = ncclSuccess;
  for (ncclComm_t comm : comms) result = begun(comm);
  return result;
}

ncclResult_t add(const char* call_name, NcclCall call) {
  ncclResult_t result = check_usable(call_name, call.comm);
  if (result == ncclSuccess && check_stream(call_name, call.stream) != cudaSuccess) {
    result = ncclUnhandledCudaError;
  }
  if (result == ncclSuccess && settings().mode == Mode::kInline) {
    result = refuse(ncclInvalidUsage, "NCCL needs streams that are threads (FAKE_CUDA_MODE)");
  }
  for (const Transfer& transfer : call.transfers) {
    if (transfer.peer < 0 || transfer.peer >= call.comm->group->size()) {
      result = refuse(ncclInvalidArgument, std::string(call_name) + ": a rank that is not there");
    }
  }
  if (result != ncclSuccess) {
    if (open_group.depth > 0) open_group.error = result;
    return result;
  }
  open_group.calls.push_back(std::move(call));
  return open_group.depth > 0 ? ncclSuccess : end_group();
}

std::byte* writable(const void* data) {
  return static_cast<std::byte*>(const_cast<void*>(data));
}

// Sends own bytes to all others and receives theirs, rank r's at all + r * bytes.
void exchange(NcclCall& call, const void* own, std::byte* all, std::size_t bytes,
              const MessageKind& kind) {
  for (int peer = 0; peer < call.comm->group->size(); ++peer) {
    if (peer == call.comm->rank) continue;
    std::byte* theirs = all + static_cast<std::size_t>(peer) * bytes;
    call.transfers.push_back({Transfer::Direction::kSend, peer, writable(own), bytes, kind});
    call.transfers.push_back({Transfer::Direction::kReceive, peer, theirs, bytes, kind});
  }
}

void copy_on_device(void* to, const void* from, std::size_t bytes) {
  if (to == from) return;
  tell_read(from, bytes);
  tell_written(to, bytes);
  std::memcpy(to, from, bytes);
}

}  // namespace
}  // namespace headrace::fake_cuda

using namespace headrace::fake_cuda;

std::string headrace::nccl_library_problem() {
  if (std::getenv("FAKE_NCCL_MISSING") != nullptr) return "NCCL cannot be loaded: a fake one";
  if (settings().mode == Mode::kInline) return "the fake NCCL needs FAKE_CUDA_MODE=threads";
  return {};
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    default:
      return "unhandled system error";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm != nullptr && !comm->error_text.empty()) return comm->error_text.c_str();
  return last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int num_made = 0;
  if (fails("ncclGetUniqueId")) return refuse(ncclSystemError, "ncclGetUniqueId: asked for");
  const std::string name = "/headrace-fake-nccl-" + std::to_string(getpid()) + "-" +
                           std::to_string(now_us()) + "-" + std::to_string(++num_made);
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const char* order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (order == nullptr || std::string(order) != "1") {
    return refuse(ncclInvalidUsage, "NCCL_LAUNCH_ORDER_IMPLICIT=1 is not in the environment");
  }
  if (fails("ncclCommInitRankConfig")) return refuse(ncclSystemError, "init: asked for");
  *comm = make_comm(id.internal, size, rank, config == nullptr || config->blocking != 0);
  return begun(*comm);
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* new_comm,
                           ncclConfig_t* config) {
  const ncclResult_t result = check_usable("ncclCommSplit", comm);
  if (result != ncclSuccess) return result;
  if (is_busy(comm)) return refuse(ncclInvalidUsage, "a split while operations are under way");
  comm->split.target = new_comm;
  comm->split.color = color;
  comm->split.blocking = config == nullptr ? comm->blocking : config->blocking != 0;
  comm->group->post_split(comm->num_splits, comm->rank, color, key);
  return begun(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = progress_of(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->group->size();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const ncclResult_t result = check_usable("ncclCommFinalize", comm);
  if (result != ncclSuccess) return result;
  comm->finalized = true;
  comm->group->leave();
  return begun(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (is_busy(comm)) return refuse(ncclInvalidUsage, "ncclCommDestroy with operations under way");
  delete comm;
  return ncclSuccess;
}

// The communicator is kept: operations that wait on their streams still look at it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const Locked locked;
  comm->aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++open_group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (open_group.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without a group");
  if (fails("ncclGroupEnd")) {
    open_group = {};
    return refuse(ncclSystemError, "ncclGroupEnd: a failure asked for");
  }
  return --open_group.depth > 0 ? ncclSuccess : end_group();
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * bytes_of(type);
  const ncclResult_t result = check_buffer("ncclSend", data, bytes);
  if (result != ncclSuccess) return result;
  NcclCall call{.comm = comm, .stream = stream, .transfers = {}, .parts = {}, .finish = {}};
  const MessageKind kind{kSendReceive, static_cast<std::uint32_t>(type), count, 0};
  call.transfers.push_back({Transfer::Direction::kSend, peer, writable(data), bytes, kind});
  return add("ncclSend", std::move(call));
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const std::size_t bytes = count * bytes_of(type);
  const ncclResult_t result = check_buffer("ncclRecv", data, bytes);
  if (result != ncclSuccess) return result;
  NcclCall call{.comm = comm, .stream = stream, .transfers = {}, .parts = {}, .finish = {}};
  const MessageKind kind{kSendReceive, static_cast<std::uint32_t>(type), count, 0};
  call.transfers.push_back({Transfer::Direction::kReceive, peer, writable(data), bytes, kind});
  return add("ncclRecv", std::move(call));
}

ncclResult_t ncclAllGather(const void* own, void* all, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * bytes_of(type);
  ncclResult_t result = check_usable("ncclAllGather", comm);
  if (result != ncclSuccess) return result;
  const auto size = static_cast<std::size_t>(comm->group->size());
  result = check_buffer("ncclAllGather", own, bytes);
  if (result == ncclSuccess) result = check_buffer("ncclAllGather", all, bytes * size);
  if (result != ncclSuccess) return result;
  NcclCall call{.comm = comm, .stream = stream, .transfers = {}, .parts = {}, .finish = {}};
  exchange(call, own, static_cast<std::byte*>(all), bytes,
           {kAllGather, static_cast<std::uint32_t>(type), count, 0});
  std::byte* place = static_cast<std::byte*>(all) + static_cast<std::size_t>(comm->rank) * bytes;
  call.finish = [place, own, bytes] { copy_on_device(place, own, bytes); };
  return add("ncclAllGather", std::move(call));
}

// Everybody adds all values in the order of ranks.
ncclResult_t ncclAllReduce(const void* own, void* sums, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  ncclResult_t result = check_usable("ncclAllReduce", comm);
  if (result != ncclSuccess) return result;
  if (type != ncclFloat32 || op != ncclSum) return refuse(ncclInvalidArgument, "only float sums");
  const std::size_t bytes = count * sizeof(float);
  result = check_buffer("ncclAllReduce", own, bytes);
  if (result == ncclSuccess) result = check_buffer("ncclAllReduce", sums, bytes);
  if (result != ncclSuccess) return result;
  NcclCall call{.comm = comm, .stream = stream, .transfers = {}, .parts = {}, .finish = {}};
  const int size = comm->group->size();
  call.parts.resize(count * static_cast<std::size_t>(size));
  float* parts = call.parts.data();
  exchange(call, own, reinterpret_cast<std::byte*>(parts), bytes,
           {kAllReduce, static_cast<std::uint32_t>(type), count, static_cast<std::uint64_t>(op)});
  call.finish = [parts, own, sums, bytes, count, size, rank = comm->rank] {
    tell_read(own, bytes);
    tell_written(sums, bytes);
    const OwnBusiness business;
    auto* out = static_cast<float*>(sums);
    std::memcpy(parts + static_cast<std::size_t>(rank) * count, own, bytes);
    for (std::size_t i = 0; i < count; ++i) {
      float sum = 0.0F;
      for (std::size_t r = 0; r < static_cast<std::size_t>(size); ++r) sum += parts[r * count + i];
      out[i] = sum;
    }
  };
  return add("ncclAllReduce", std::move(call));
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * bytes_of(type);
  ncclResult_t result = check_usable("ncclBroadcast", comm);
  if (result == ncclSuccess) result = check_buffer("ncclBroadcast", to, bytes);
  if (result != ncclSuccess) return result;
  NcclCall call{.comm = comm, .stream = stream, .transfers = {}, .parts = {}, .finish = {}};
  const MessageKind kind{kBroadcast, static_cast<std::uint32_t>(type), count,
                         static_cast<std::uint64_t>(root)};
  if (comm->rank != root) {
    call.transfers.push_back({Transfer::Direction::kReceive, root, writable(to), bytes, kind});
    return add("ncclBroadcast", std::move(call));
  }
  for (int peer = 0; peer < comm->group->size(); ++peer) {
    if (peer == root) continue;
    call.transfers.push_back({Transfer::Direction::kSend, peer, writable(from), bytes, kind});
  }
  call.finish = [from, to, bytes] { copy_on_device(to, from, bytes); };
  return add("ncclBroadcast", std::move(call));
}
