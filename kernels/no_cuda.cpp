// In the place of kernels/cuda where the program is built without CUDA.
#include <stdexcept>

#include "kernels/cuda_backend.h"

namespace headrace {

std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& /*options*/) {
  throw std::invalid_argument(
      "the GPU backend is not in this build: it was configured without CUDA (HEADRACE_CUDA)");
}

std::string_view cuda_build() {
  return {};
}

}  // namespace headrace
