// In the place of kernels/cuda where the program is built without CUDA.
#include <stdexcept>

#include "kernels/cuda_backend.h"

namespace headrace {

namespace {

constexpr const char* kNotBuiltIn =
    "the GPU backend is not in this build: it was configured without CUDA (HEADRACE_CUDA)";

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& /*options*/) {
  throw std::invalid_argument(kNotBuiltIn);
}

Stream cuda_stream(DeviceArena& /*arena*/) {
  throw std::logic_error(kNotBuiltIn);
}

CudaDevices cuda_devices() {
  return {.devices = {}, .why_none = kNotBuiltIn};
}

std::uint64_t cuda_free_bytes(int /*device*/) {
  throw std::invalid_argument(kNotBuiltIn);
}

std::string cuda_numeric_class(const CudaDevice& /*device*/) {
  throw std::invalid_argument(kNotBuiltIn);
}

CudaLibraries cuda_libraries() {
  throw std::invalid_argument(kNotBuiltIn);
}

std::string_view cuda_build() {
  return {};
}

}  // namespace headrace
