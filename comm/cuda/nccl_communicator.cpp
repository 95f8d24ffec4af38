#include "comm/cuda/nccl_communicator.h"

#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <utility>

#include "comm/waiting.h"

namespace headrace {
namespace {

// Communicators of one device run in the order in which the host calls, so that ranks which call in
// the same order cannot block each other. NCCL looks at it when a communicator is made.
void keep_launch_order() {
  constexpr int kReplace = 1;
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", kReplace);
}

ncclConfig_t without_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

NcclCommunicator::NcclCommunicator(const NcclWait& wait, std::string with)
    : wait_(wait), with_(std::move(with)) {}

std::unique_ptr<NcclCommunicator> NcclCommunicator::world(const Communicator& ranks,
                                                          const NcclWait& wait) {
  keep_launch_order();
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(wait, "the other ranks"));
  ncclUniqueId id = {};
  if (ranks.rank() == 0) made->require(ncclGetUniqueId(&id), "ncclGetUniqueId");
  ranks.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  ncclConfig_t config = without_blocking();
  made->require(ncclCommInitRankConfig(&made->comm_, ranks.size(), id, ranks.rank(), &config),
                "ncclCommInitRankConfig");
  return made;
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::split(const NcclPlace& place) {
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(wait_, place.with));
  ncclConfig_t config = without_blocking();
  config.maxCTAs = place.channels;
  // The new handle is there once this communicator is ready again.
  require(ncclCommSplit(comm_, place.color, place.key, &made->comm_, &config), "ncclCommSplit");
  if (made->comm_ == nullptr) return nullptr;
  made->follow("ncclCommSplit");
  return made;
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  if (failed_ || std::uncaught_exceptions() > 0) {
    ncclCommAbort(comm_);
    return;
  }
  ncclResult_t result = ncclCommFinalize(comm_);
  const std::int64_t begin = now_ns();
  while (result == ncclInProgress &&
         (wait_.stall_timeout_s <= 0 || seconds_since(begin) < wait_.stall_timeout_s)) {
    pause_politely(now_ns() - begin);
    result = state();
  }
  if (result == ncclSuccess) {
    ncclCommDestroy(comm_);
  } else {
    ncclCommAbort(comm_);
  }
}

ncclResult_t NcclCommunicator::state() const {
  ncclResult_t result = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
  return asked == ncclSuccess ? result : asked;
}

void NcclCommunicator::require(ncclResult_t result, const char* call) {
  if (result == ncclInProgress) {
    follow(call);
  } else if (result != ncclSuccess) {
    fail(result, call);
  }
}

void NcclCommunicator::require_healthy(const char* work) {
  const ncclResult_t result = state();
  if (result != ncclSuccess && result != ncclInProgress) fail(result, work);
}

void NcclCommunicator::follow(const char* call) {
  const std::int64_t begin = now_ns();
  for (;;) {
    const ncclResult_t result = state();
    if (result == ncclSuccess) return;
    if (result != ncclInProgress) fail(result, call);
    if (wait_.poll) wait_.poll();
    if (wait_.stall_timeout_s > 0 && seconds_since(begin) > wait_.stall_timeout_s) {
      failed_ = true;
      throw_stalled(wait_.stall_timeout_s, "for " + with_ + " in " + call);
    }
    pause_politely(now_ns() - begin);
  }
}

void NcclCommunicator::fail(ncclResult_t result, const char* call) {
  failed_ = true;
  const char* more = ncclGetLastError(comm_);
  std::string text = std::string(call) + " with " + with_ + ": " + ncclGetErrorString(result);
  if (more != nullptr && *more != '\0') text += std::string(" (") + more + ")";
  throw std::runtime_error(text);
}

}  // namespace headrace
