// What GPUs there are. Whatever keeps CUDA from saying so means that there are none.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>

#include "kernels/cuda/check.h"
#include "kernels/cuda_backend.h"

namespace headrace {
namespace {

std::string id_text(const cudaUUID_t& uuid) {
  std::string text;
  for (const char byte : uuid.bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(byte));
    text += digits.data();
  }
  return text;
}

}  // namespace

CudaDevices cuda_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return {.devices = {}, .why_none = cudaGetErrorString(status)};
  if (count == 0) return {.devices = {}, .why_none = "CUDA shows none to this process"};
  CudaDevices found;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    HR_CUDA(cudaGetDeviceProperties(&properties, device));
    found.devices.push_back({.name = properties.name,
                             .id = id_text(properties.uuid),
                             .sm = properties.major * 10 + properties.minor,
                             .total_bytes = properties.totalGlobalMem});
  }
  return found;
}

std::uint64_t cuda_free_bytes(int device) {
  HR_CUDA(cudaSetDevice(device));
  std::size_t free = 0;
  std::size_t total = 0;
  HR_CUDA(cudaMemGetInfo(&free, &total));
  return free;
}

CudaLibraries cuda_libraries() {
  CudaLibraries libraries{.cublaslt = cublasLtGetVersion()};
  HR_CUDA(cudaDriverGetVersion(&libraries.driver));
  return libraries;
}

std::string cuda_numeric_class(const CudaDevice& device) {
  int version = 0;
  HR_CUDA(cudaRuntimeGetVersion(&version));
  return "cuda:" + std::to_string(device.sm) + ":" + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

}  // namespace headrace
