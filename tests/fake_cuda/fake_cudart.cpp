// The CUDA runtime as far as the backend uses it, in host memory: what is queued happens at once.
// Compiled against the real headers, so that signatures agree, and linked in place of the real
// library.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

struct CUstream_st {};
struct CUevent_st {};

namespace {

// Memory that was handed out and not given back, with its bytes: anything else is not freed but
// reported.
std::map<void*, std::size_t>& allocations() {
  static std::map<void*, std::size_t> all;
  return all;
}

long number_of(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtol(text, nullptr, 10);
}

std::size_t device_bytes() {
  return static_cast<std::size_t>(number_of("FAKE_CUDA_BYTES", 1L << 36));
}

int num_devices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && *visible == '\0') return 0;
  return static_cast<int>(number_of("FAKE_CUDA_DEVICES", 1));
}

// FAKE_CUDA_FAIL=NAME:N makes the n-th call of a function fail.
bool fails(const std::string& name) {
  static std::map<std::string, long> calls;
  const char* fault = std::getenv("FAKE_CUDA_FAIL");
  return fault != nullptr && name + ":" + std::to_string(++calls[name]) == fault;
}

std::size_t used_bytes() {
  std::size_t used = 0;
  for (const auto& [pointer, bytes] : allocations()) used += bytes;
  return used;
}

cudaError_t allocate(void** pointer, std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  constexpr int kNanInEveryType = 0xFF;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *pointer = std::aligned_alloc(kAlignment, rounded);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*pointer, kNanInEveryType, bytes);
  allocations()[*pointer] = bytes;
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
  *count = num_devices();
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device) {
  return device >= 0 && device < num_devices() ? cudaSuccess : cudaErrorInvalidDevice;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the fake CUDA runtime";
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Fake GPU %d", device);
  std::snprintf(properties->uuid.bytes, sizeof(properties->uuid.bytes), "fake-%d", device);
  properties->totalGlobalMem = device_bytes();
  properties->major = 9;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *total_bytes = device_bytes();
  *free_bytes = *total_bytes - used_bytes();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (fails("cudaMalloc") || bytes > device_bytes() - used_bytes()) {
    return cudaErrorMemoryAllocation;
  }
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
  if (fails("cudaMemcpyAsync")) return cudaErrorInvalidValue;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  std::memset(to, value, bytes);
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

cudaError_t cudaEventQuery(cudaEvent_t /*event*/) {
  return cudaSuccess;
}
