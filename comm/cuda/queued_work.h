// Whether something that was queued on a stream has ended, and for how long it has not.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "kernels/cuda/handles.h"

namespace headrace {

class QueuedWork {
 public:
  /// Means what is queued on the stream so far, from now on.
  void mark(cudaStream_t stream);

  /// True where it has, or nothing was marked. Throws where the device has failed; `work` says in
  /// whose favour it worked.
  bool ended(const std::string& work);

  /// Throws std::runtime_error where it has not ended for so long: "waited 60 s (--stall-timeout)
  /// WHAT". 0: never.
  void require_progress(double stall_timeout_s, const std::string& what);

 private:
  OwnedEvent event_;
  bool pending_ = false;
  std::int64_t since_ns_ = 0;
};

/// Makes `stream` wait for what is queued on `before` so far.
void order_after(cudaStream_t stream, cudaStream_t before, const OwnedEvent& event);

/// Whether what an event stands for has happened. Throws where the device has failed.
bool has_happened(const OwnedEvent& event, const std::string& work);

}  // namespace headrace
