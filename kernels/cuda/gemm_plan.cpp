#include "kernels/cuda/gemm_plan.h"

#include <array>
#include <stdexcept>

#include "kernels/cuda/check.h"

namespace headrace {
namespace {

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
  }
  throw std::logic_error("a type that cuBLASLt is not asked for");
}

template <class Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  HR_CUBLAS(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)));
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  HR_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

int split_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::int32_t split = 0;
  std::size_t written = 0;
  HR_CUBLAS(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                 &split, sizeof(split), &written));
  return split;
}

// What is asked of the heuristics, for as long as they are.
class Preference {
 public:
  Preference() { HR_CUBLAS(cublasLtMatmulPreferenceCreate(&preference_)); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

// The library's objects are column-major: it computes out's transpose [n, m] as w [n, k], given as
// the transpose of its columns, times x's transpose [k, m].
GemmPlan::GemmPlan(const GemmArgs& shape, DType dtype) {
  HR_CUBLAS(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(description_, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  const auto rows = static_cast<std::uint64_t>(shape.k);
  const auto columns = static_cast<std::uint64_t>(shape.n);
  HR_CUBLAS(cublasLtMatrixLayoutCreate(&weights_, data_type(dtype), rows, columns, shape.stride));
  HR_CUBLAS(
      cublasLtMatrixLayoutCreate(&inputs_, data_type(dtype), rows, kPinnedRows, shape.stride));
  HR_CUBLAS(cublasLtMatrixLayoutCreate(&outputs_, CUDA_R_32F, columns, kPinnedRows, shape.n));
}

GemmPlan::~GemmPlan() {
  cublasLtMatrixLayoutDestroy(outputs_);
  cublasLtMatrixLayoutDestroy(inputs_);
  cublasLtMatrixLayoutDestroy(weights_);
  cublasLtMatmulDescDestroy(description_);
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::algorithms(const GemmQueue& queue,
                                                       std::uint32_t alignment) const {
  const Preference preference;
  set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(queue.workspace.size()));
  set(preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference.get(), attribute, alignment);
  }
  std::array<cublasLtMatmulHeuristicResult_t, 32> found;
  int count = 0;
  HR_CUBLAS(cublasLtMatmulAlgoGetHeuristic(queue.handle, description_, weights_, inputs_, outputs_,
                                           outputs_, preference.get(),
                                           static_cast<int>(found.size()), found.data(), &count));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    const auto& candidate = found[static_cast<std::size_t>(i)];
    if (candidate.state != CUBLAS_STATUS_SUCCESS || split_of(candidate.algo) > 1) continue;
    algorithms.push_back(candidate.algo);
  }
  if (algorithms.empty()) {
    throw std::runtime_error("cuBLASLt offers no algorithm that does not split the sum");
  }
  return algorithms;
}

void GemmPlan::set_rows(std::int64_t rows) const {
  const auto columns = static_cast<std::uint64_t>(rows);
  for (cublasLtMatrixLayout_t layout : {inputs_, outputs_}) {
    HR_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns,
                                               sizeof(columns)));
  }
}

bool GemmPlan::takes(const GemmQueue& queue, const cublasLtMatmulAlgo_t& algorithm,
                     std::int64_t rows) const {
  set_rows(rows);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(
      queue.handle, description_, weights_, inputs_, outputs_, outputs_, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= queue.workspace.size() &&
         split_of(algorithm) <= 1;
}

cublasStatus_t GemmPlan::run(const GemmArgs& args, const GemmQueue& queue,
                             const cublasLtMatmulAlgo_t& algorithm) const {
  set_rows(args.m);
  const float one = 1.0F;
  const float beta = args.accumulate ? 1.0F : 0.0F;
  return cublasLtMatmul(queue.handle, description_, &one, args.w, weights_, args.x, inputs_, &beta,
                        args.out, outputs_, args.out, outputs_, &algorithm, queue.workspace.data(),
                        queue.workspace.size(), queue.stream);
}

}  // namespace headrace
