// NCCL's functions as they are called, each looked up in the library at its first call. Tests link
// a fake in its place.
#include <dlfcn.h>
#include <nccl.h>

#include <stdexcept>
#include <string>

#include "comm/cuda/nccl_library.h"
#include "kernels/cuda/loaded_function.h"

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

struct Nccl {
  static constexpr const char* kName = "NCCL";

  static void* handle() {
    if (library().handle == nullptr) throw std::runtime_error(library().problem);
    return library().handle;
  }
};

template <headrace::FunctionName kName, class... Arguments>
ncclResult_t result_of(Arguments... arguments) {
  return headrace::call_loaded<Nccl, ncclResult_t, kName>(arguments...);
}

template <headrace::FunctionName kName, class... Arguments>
const char* text_from(Arguments... arguments) {
  return headrace::call_loaded<Nccl, const char*, kName>(arguments...);
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
  return result_of<"ncclGetVersion">(version);
}

const char* ncclGetErrorString(ncclResult_t result) {
  return text_from<"ncclGetErrorString">(result);
}

const char* ncclGetLastError(ncclComm_t comm) {
  return text_from<"ncclGetLastError">(comm);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return result_of<"ncclGetUniqueId">(id);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return result_of<"ncclCommInitRankConfig">(comm, size, id, rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* new_comm,
                           ncclConfig_t* config) {
  return result_of<"ncclCommSplit">(comm, color, key, new_comm, config);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return result_of<"ncclCommGetAsyncError">(comm, error);
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return result_of<"ncclCommCount">(comm, count);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return result_of<"ncclCommUserRank">(comm, rank);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return result_of<"ncclCommFinalize">(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return result_of<"ncclCommDestroy">(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return result_of<"ncclCommAbort">(comm);
}

ncclResult_t ncclGroupStart() {
  return result_of<"ncclGroupStart">();
}

ncclResult_t ncclGroupEnd() {
  return result_of<"ncclGroupEnd">();
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return result_of<"ncclSend">(data, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return result_of<"ncclRecv">(data, count, type, peer, comm, stream);
}

ncclResult_t ncclAllGather(const void* own, void* all, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return result_of<"ncclAllGather">(own, all, count, type, comm, stream);
}

ncclResult_t ncclAllReduce(const void* own, void* sums, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return result_of<"ncclAllReduce">(own, sums, count, type, op, comm, stream);
}
