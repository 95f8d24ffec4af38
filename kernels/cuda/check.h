// Every call of CUDA and cuBLASLt goes through one of these.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace headrace {

/// Throws std::runtime_error with the call, the library's own text and the place. Success is no
/// error.
void check_cuda(cudaError_t status, const char* call, const char* file, int line);
void check_cublas(cublasStatus_t status, const char* call, const char* file, int line);

}  // namespace headrace

#define HR_CUDA(call) ::headrace::check_cuda((call), #call, __FILE__, __LINE__)
#define HR_CUBLAS(call) ::headrace::check_cublas((call), #call, __FILE__, __LINE__)
