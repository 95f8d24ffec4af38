// cuBLASLt as it is called, loaded when it first is: just to have it in the process costs 95 MB of
// memory, which ranks that compute on CPUs should not pay. Tests link a fake in its place.
#include <cublasLt.h>
#include <cublas_api.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda/loaded_function.h"

namespace {

struct CublasLt {
  static constexpr const char* kName = "cuBLASLt";

  static void* handle() {
    static void* const loaded = [] {
      const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
      void* opened = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (opened == nullptr) throw std::runtime_error(std::string("cuBLASLt: ") + dlerror());
      return opened;
    }();
    return loaded;
  }
};

template <class Result, headrace::FunctionName kName, class... Arguments>
Result call(Arguments... arguments) {
  return headrace::call_loaded<CublasLt, Result, kName>(arguments...);
}

template <headrace::FunctionName kName, class... Arguments>
cublasStatus_t status_of(Arguments... arguments) {
  return call<cublasStatus_t, kName>(arguments...);
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return status_of<"cublasLtCreate">(handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return status_of<"cublasLtDestroy">(handle);
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return call<const char*, "cublasLtGetStatusString">(status);
}

std::size_t cublasLtGetVersion() {
  return call<std::size_t, "cublasLtGetVersion">();
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  return status_of<"cublasLtMatmulDescCreate">(description, compute_type, scale_type);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return status_of<"cublasLtMatmulDescDestroy">(description);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  return status_of<"cublasLtMatmulDescSetAttribute">(description, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t stride) {
  return status_of<"cublasLtMatrixLayoutCreate">(layout, type, rows, columns, stride);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return status_of<"cublasLtMatrixLayoutDestroy">(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  return status_of<"cublasLtMatrixLayoutSetAttribute">(layout, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return status_of<"cublasLtMatmulPreferenceCreate">(preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return status_of<"cublasLtMatmulPreferenceDestroy">(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  return status_of<"cublasLtMatmulPreferenceSetAttribute">(preference, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  return status_of<"cublasLtMatmulAlgoGetHeuristic">(handle, operation, a, b, c, d, preference,
                                                     requested, results, returned);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  return status_of<"cublasLtMatmulAlgoCheck">(handle, operation, a, b, c, d, algorithm, result);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  return status_of<"cublasLtMatmulAlgoConfigGetAttribute">(algorithm, attribute, value, bytes,
                                                           written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  return status_of<"cublasLtMatmul">(handle, operation, alpha, a, a_layout, b, b_layout, beta, c,
                                     c_layout, d, d_layout, algorithm, workspace, workspace_bytes,
                                     stream);
}
