// Streams and events of the fake runtime: queues of operations, each worked off by a thread of its
// own, or at once (Mode::kInline).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace headrace::fake_cuda {

/// Asked again and again until it says that it is done. The first call begins the operation; it
/// must not block, since another stream may have to go on for it to end.
using Operation = std::function<bool()>;

/// cudaSuccess where work may be queued on the stream; reports the default stream and destroyed
/// ones.
cudaError_t check_stream(const char* call, cudaStream_t stream);

/// Queues an operation on a stream that was checked. On a spoilt device it is passed over.
void enqueue(cudaStream_t stream, Operation operation);

int device_of(cudaStream_t stream);

/// Waits until all that is queued is done, and orders it before what the caller does next.
void wait_for(cudaStream_t stream);
void wait_for_device(int device);

}  // namespace headrace::fake_cuda
