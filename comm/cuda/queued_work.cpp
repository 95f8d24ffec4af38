#include "comm/cuda/queued_work.h"

#include <stdexcept>

#include "comm/waiting.h"
#include "kernels/cuda/check.h"

namespace headrace {

void QueuedWork::mark(cudaStream_t stream) {
  HR_CUDA(cudaEventRecord(event_.get(), stream));
  pending_ = true;
  since_ns_ = now_ns();
}

bool QueuedWork::ended(const std::string& work) {
  if (pending_ && has_happened(event_, work)) pending_ = false;
  return !pending_;
}

void QueuedWork::require_progress(double stall_timeout_s, const std::string& what) {
  if (stall_timeout_s <= 0 || seconds_since(since_ns_) <= stall_timeout_s || ended(what)) return;
  throw_stalled(stall_timeout_s, what);
}

void order_after(cudaStream_t stream, cudaStream_t before, const OwnedEvent& event) {
  HR_CUDA(cudaEventRecord(event.get(), before));
  HR_CUDA(cudaStreamWaitEvent(stream, event.get(), 0));
}

bool has_happened(const OwnedEvent& event, const std::string& work) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status == cudaErrorNotReady) return false;
  if (status == cudaSuccess) return true;
  throw std::runtime_error("cudaEventQuery, while this rank's GPU worked " + work + ": " +
                           cudaGetErrorString(status));
}

}  // namespace headrace
