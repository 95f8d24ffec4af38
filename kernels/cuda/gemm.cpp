#include "kernels/cuda/gemm.h"

#include <array>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>

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
struct CudaGemm::Pinned {
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t weights = nullptr;
  cublasLtMatrixLayout_t inputs = nullptr;
  cublasLtMatrixLayout_t outputs = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};

  Pinned(const GemmArgs& args, DType dtype) {
    HR_CUBLAS(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    const auto rows = static_cast<std::uint64_t>(args.k);
    const auto columns = static_cast<std::uint64_t>(args.n);
    HR_CUBLAS(cublasLtMatrixLayoutCreate(&weights, data_type(dtype), rows, columns, args.stride));
    HR_CUBLAS(
        cublasLtMatrixLayoutCreate(&inputs, data_type(dtype), rows, kPinnedRows, args.stride));
    HR_CUBLAS(cublasLtMatrixLayoutCreate(&outputs, CUDA_R_32F, columns, kPinnedRows, args.n));
  }
  ~Pinned() {
    cublasLtMatrixLayoutDestroy(outputs);
    cublasLtMatrixLayoutDestroy(inputs);
    cublasLtMatrixLayoutDestroy(weights);
    cublasLtMatmulDescDestroy(description);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  void set_rows(std::int64_t m) const {
    const auto columns = static_cast<std::uint64_t>(m);
    for (cublasLtMatrixLayout_t layout : {inputs, outputs}) {
      HR_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns,
                                                 sizeof(columns)));
    }
  }

  void choose_algorithm(cublasLtHandle_t handle, std::size_t workspace_bytes,
                        std::uint32_t alignment) {
    const Preference preference;
    set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(workspace_bytes));
    set(preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(preference.get(), attribute, alignment);
    }
    std::array<cublasLtMatmulHeuristicResult_t, 16> found;
    int count = 0;
    HR_CUBLAS(cublasLtMatmulAlgoGetHeuristic(handle, description, weights, inputs, outputs, outputs,
                                             preference.get(), static_cast<int>(found.size()),
                                             found.data(), &count));
    for (int i = 0; i < count; ++i) {
      const auto& candidate = found[static_cast<std::size_t>(i)];
      if (candidate.state != CUBLAS_STATUS_SUCCESS || split_of(candidate.algo) > 1) continue;
      algorithm = candidate.algo;
      return;
    }
    throw std::runtime_error("cuBLASLt offers no algorithm that does not split the sum");
  }
};

CudaGemm::CudaGemm(DType dtype, cudaStream_t stream, std::size_t workspace_bytes)
    : dtype_(dtype), stream_(stream), workspace_(workspace_bytes) {}

CudaGemm::~CudaGemm() {
  pinned_.clear();
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

// x and out are left out: the algorithm must not depend on where a step's tensors lie.
CudaGemm::Key CudaGemm::key_of(const GemmArgs& args) const {
  constexpr std::uintptr_t kWidestLoad = 16;
  const std::uintptr_t all = kWidestLoad | reinterpret_cast<std::uintptr_t>(args.w) |
                             static_cast<std::uintptr_t>(args.stride) * dtype_bytes(dtype_) |
                             static_cast<std::uintptr_t>(args.n) * sizeof(float);
  const auto alignment = static_cast<std::uint32_t>(std::uintptr_t{1} << std::countr_zero(all));
  return {args.n, args.k, args.stride, alignment};
}

void CudaGemm::pin(const GemmArgs& args) {
  const Key key = key_of(args);
  std::unique_ptr<Pinned>& entry = pinned_[key];
  if (entry != nullptr) return;
  // The library is needed from here on: what has no products does without.
  if (handle_ == nullptr) HR_CUBLAS(cublasLtCreate(&handle_));
  auto pinned = std::make_unique<Pinned>(args, dtype_);
  pinned->choose_algorithm(handle_, workspace_.bytes(), std::get<3>(key));
  entry = std::move(pinned);
}

void CudaGemm::multiply(const GemmArgs& args) {
  if (args.m == 0 || args.n == 0) return;
  const Key key = key_of(args);
  const std::uintptr_t misaligned =
      (reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(args.out)) %
      std::get<3>(key);
  if (misaligned != 0) {
    throw std::invalid_argument("matmul: tensors on the GPU have to begin at multiples of " +
                                std::to_string(std::get<3>(key)) + " bytes here");
  }
  const auto entry = pinned_.find(key);
  if (entry == pinned_.end()) {
    throw std::logic_error("a product of " + std::to_string(args.n) + " x " +
                           std::to_string(args.k) + " whose algorithm was not chosen before");
  }
  const Pinned& pinned = *entry->second;
  pinned.set_rows(args.m);
  const float one = 1.0F;
  const float beta = args.accumulate ? 1.0F : 0.0F;
  HR_CUBLAS(cublasLtMatmul(handle_, pinned.description, &one, args.w, pinned.weights, args.x,
                           pinned.inputs, &beta, args.out, pinned.outputs, args.out, pinned.outputs,
                           &pinned.algorithm, workspace_.data(), workspace_.bytes(), stream_));
}

}  // namespace headrace
