// NCCL's functions as they are called, each looked up in the library at its first call. Tests link
// a fake in its place.
#include <dlfcn.h>
#include <nccl.h>

#include <stdexcept>
#include <string>

#include "comm/cuda/nccl_library.h"

namespace {

// What is called here has been the same since then (NCCL_LAUNCH_ORDER_IMPLICIT is the newest).
constexpr int kOldestVersion = NCCL_VERSION(2, 26, 0);

// A version code as people write it.
std::string text_of(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

struct Library {
  void* handle = nullptr;
  std::string problem;  // where there is none
};

const Library& library() {
  static const Library loaded = [] {
    const std::string name = "libnccl.so." + std::to_string(NCCL_MAJOR);
    Library found;
    found.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (found.handle == nullptr) found.problem = std::string("NCCL cannot be loaded: ") + dlerror();
    return found;
  }();
  return loaded;
}

template <class Function>
Function* loaded(const char* name) {
  if (library().handle == nullptr) throw std::runtime_error(library().problem);
  void* const address = dlsym(library().handle, name);
  if (address == nullptr) throw std::runtime_error(std::string("NCCL: ") + dlerror());
  return reinterpret_cast<Function*>(address);
}

}  // namespace

namespace headrace {

std::string nccl_library_problem() {
  if (library().handle == nullptr) return library().problem;
  int version = 0;
  if (ncclGetVersion(&version) == ncclSuccess && version >= kOldestVersion) return {};
  return "the NCCL of this machine is version " + text_of(version) + ", " +
         text_of(kOldestVersion) + " or later is needed";
}

}  // namespace headrace

ncclResult_t ncclGetVersion(int* version) {
  static auto* const call = loaded<decltype(ncclGetVersion)>("ncclGetVersion");
  return call(version);
}

const char* ncclGetErrorString(ncclResult_t result) {
  static auto* const call = loaded<decltype(ncclGetErrorString)>("ncclGetErrorString");
  return call(result);
}

const char* ncclGetLastError(ncclComm_t comm) {
  static auto* const call = loaded<decltype(ncclGetLastError)>("ncclGetLastError");
  return call(comm);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static auto* const call = loaded<decltype(ncclGetUniqueId)>("ncclGetUniqueId");
  return call(id);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  static auto* const call = loaded<decltype(ncclCommInitRankConfig)>("ncclCommInitRankConfig");
  return call(comm, size, id, rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* new_comm,
                           ncclConfig_t* config) {
  static auto* const call = loaded<decltype(ncclCommSplit)>("ncclCommSplit");
  return call(comm, color, key, new_comm, config);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  static auto* const call = loaded<decltype(ncclCommGetAsyncError)>("ncclCommGetAsyncError");
  return call(comm, error);
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  static auto* const call = loaded<decltype(ncclCommCount)>("ncclCommCount");
  return call(comm, count);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  static auto* const call = loaded<decltype(ncclCommUserRank)>("ncclCommUserRank");
  return call(comm, rank);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  static auto* const call = loaded<decltype(ncclCommFinalize)>("ncclCommFinalize");
  return call(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  static auto* const call = loaded<decltype(ncclCommDestroy)>("ncclCommDestroy");
  return call(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  static auto* const call = loaded<decltype(ncclCommAbort)>("ncclCommAbort");
  return call(comm);
}

ncclResult_t ncclGroupStart() {
  static auto* const call = loaded<decltype(ncclGroupStart)>("ncclGroupStart");
  return call();
}

ncclResult_t ncclGroupEnd() {
  static auto* const call = loaded<decltype(ncclGroupEnd)>("ncclGroupEnd");
  return call();
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  static auto* const call = loaded<decltype(ncclSend)>("ncclSend");
  return call(data, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  static auto* const call = loaded<decltype(ncclRecv)>("ncclRecv");
  return call(data, count, type, peer, comm, stream);
}

ncclResult_t ncclAllGather(const void* own, void* all, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  static auto* const call = loaded<decltype(ncclAllGather)>("ncclAllGather");
  return call(own, all, count, type, comm, stream);
}

ncclResult_t ncclAllReduce(const void* own, void* sums, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  static auto* const call = loaded<decltype(ncclAllReduce)>("ncclAllReduce");
  return call(own, sums, count, type, op, comm, stream);
}
