// The GPU's operators for tests, whose tensors lie in memory of the host: each call brings its
// operands to the device and its results back. What is aligned to 16 bytes, or less, on the host is
// so on the device, and ends where its memory ends.
#pragma once

#include <memory>

#include "kernels/cuda_backend.h"

namespace headrace::testing_ops {

/// As make_cuda_ops(). Views, weights of norms, biases and caches are the host's; matrices are the
/// device's, as ever.
std::unique_ptr<Ops> make_hosted_cuda_ops(const CudaOptions& options);

}  // namespace headrace::testing_ops
