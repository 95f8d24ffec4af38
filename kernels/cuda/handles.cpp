#include "kernels/cuda/handles.h"

#include <stdexcept>
#include <string>

#include "kernels/cuda/check.h"

namespace headrace {
namespace {

[[noreturn]] void fail(const char* text, const char* call, const char* file, int line) {
  throw std::runtime_error(std::string(call) + ": " + text + " (" + file + ":" +
                           std::to_string(line) + ")");
}

}  // namespace

void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status != cudaSuccess) fail(cudaGetErrorString(status), call, file, line);
}

void check_cublas(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::string text = cublasLtGetStatusString(status);
  // What was queued before may be at fault, and no kernel is taken since.
  const cudaError_t device = cudaPeekAtLastError();
  if (device != cudaSuccess) text += std::string("; the GPU says: ") + cudaGetErrorString(device);
  fail(text.c_str(), call, file, line);
}

OwnedStream::OwnedStream() {
  HR_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

OwnedStream::~OwnedStream() {
  cudaStreamDestroy(stream_);
}

OwnedEvent::OwnedEvent() {
  HR_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
}

OwnedEvent::~OwnedEvent() {
  cudaEventDestroy(event_);
}

template <MemoryKind kKind>
OwnedMemory<kKind>::OwnedMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  constexpr bool kIsDevice = kKind == MemoryKind::kDevice;
  const cudaError_t status =
      kIsDevice ? cudaMalloc(&memory, bytes) : cudaMallocHost(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    throw std::runtime_error(
        std::string(kIsDevice ? "the GPU has no " : "the host has no pinned memory of ") +
        std::to_string(bytes) + (kIsDevice ? " bytes of free memory" : " bytes"));
  }
  HR_CUDA(status);
  data_ = static_cast<std::byte*>(memory);
}

template <MemoryKind kKind>
OwnedMemory<kKind>::~OwnedMemory() {
  if constexpr (kKind == MemoryKind::kDevice) {
    cudaFree(data_);
  } else {
    cudaFreeHost(data_);
  }
}

template class OwnedMemory<MemoryKind::kDevice>;
template class OwnedMemory<MemoryKind::kPinnedHost>;

}  // namespace headrace
