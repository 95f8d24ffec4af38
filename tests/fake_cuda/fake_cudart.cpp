// The CUDA runtime as far as the backend uses it, in host memory: what is queued happens at once.
// Compiled against the real headers, so that signatures agree, and linked in place of the real
// library.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <set>

struct CUstream_st {};
struct CUevent_st {};

namespace {

// Memory that was handed out and not given back: anything else is not freed but reported.
std::set<void*>& allocations() {
  static std::set<void*> all;
  return all;
}

cudaError_t allocate(void** pointer, std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  constexpr int kNanInEveryType = 0xFF;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *pointer = std::aligned_alloc(kAlignment, rounded);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*pointer, kNanInEveryType, bytes);
  allocations().insert(*pointer);
  return cudaSuccess;
}

cudaError_t release(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (allocations().erase(pointer) == 0) return cudaErrorInvalidValue;
  std::free(pointer);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the fake CUDA runtime";
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return allocate(pointer, bytes);
}

cudaError_t cudaFree(void* pointer) {
  return release(pointer);
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return allocate(pointer, bytes);
}

cudaError_t cudaFreeHost(void* pointer) {
  return release(pointer);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;  // never the default stream
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return stream == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t /*event*/, cudaStream_t stream) {
  return stream == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) {
  return cudaSuccess;
}
