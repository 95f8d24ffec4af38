// An NCCL communicator that does not block: every call is followed until NCCL says that it has
// begun, errors come with the call and the peer, and a rank that does not come is named after the
// stall timeout. One thread of a rank makes all calls, in an order that its peers share.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace headrace {

/// How calls are waited for.
struct NcclWait {
  double stall_timeout_s = 0.0;
  std::function<void()> poll;  // lets other transfers advance meanwhile; may be empty
};

/// Where a rank goes in a split: not anywhere without a colour.
struct NcclPlace {
  int color = NCCL_SPLIT_NOCOLOR;
  int key = 0;
  int channels = 1;  // at most: what its memory is planned by (nccl_memory.h)
  std::string with;  // the others, for messages
};

/// Owns a communicator. Where it has failed, or is torn down by an exception, it is aborted: nobody
/// waits for a peer then.
class NcclCommunicator {
 public:
  /// Collective over the ranks, each on a device of its own, which the calling thread has selected.
  static std::unique_ptr<NcclCommunicator> world(const Communicator& ranks, const NcclWait& wait);

  /// Collective over this one's ranks, while nothing is under way on it. Null without a colour.
  std::unique_ptr<NcclCommunicator> split(const NcclPlace& place);

  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  ncclComm_t get() const { return comm_; }
  const std::string& with() const { return with_; }

  /// Looks at what a call returned, and waits until NCCL has taken it. `call` is its name.
  void require(ncclResult_t result, const char* call);

  /// Throws where NCCL has noticed an error since; `work` says at what: "ncclRecv".
  void require_healthy(const char* work);

 private:
  NcclCommunicator(const NcclWait& wait, std::string with);
  ncclResult_t state() const;
  void follow(const char* call);
  [[noreturn]] void fail(ncclResult_t result, const char* call);

  ncclComm_t comm_ = nullptr;
  NcclWait wait_;
  std::string with_;
  bool failed_ = false;
};

}  // namespace headrace
