// One shape of product as cuBLASLt is asked for it: descriptions of the operands for any number of
// rows, the algorithms that the library names for it, and the call.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/tensor.h"

namespace headrace {

/// Rows for which algorithms are asked for: between those of decoding and of prompts.
inline constexpr std::int64_t kPinnedRows = 256;

/// out [m, n] = x [m, k] times w's transpose [k, n], plus out's values where `accumulate` says so.
struct GemmArgs {
  float* out = nullptr;
  const std::byte* x = nullptr;  // rows `stride` elements apart
  const std::byte* w = nullptr;  // [n, k], rows `stride` elements apart
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t stride = 0;
  bool accumulate = false;
};

/// Where products are queued.
struct GemmQueue {
  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  std::span<std::byte> workspace = {};  // of the device, for the library
};

class GemmPlan {
 public:
  /// Of `shape` n, k and stride count; dtype is that of x and w.
  GemmPlan(const GemmArgs& shape, DType dtype);
  ~GemmPlan();
  GemmPlan(const GemmPlan&) = delete;
  GemmPlan& operator=(const GemmPlan&) = delete;

  /// What the heuristics name for kPinnedRows rows, the fastest first, without those that split K.
  /// Operands are multiples of `alignment` bytes. Throws std::runtime_error where there is none.
  std::vector<cublasLtMatmulAlgo_t> algorithms(const GemmQueue& queue,
                                               std::uint32_t alignment) const;

  /// Whether the library has this algorithm, which may come from anywhere, for so many rows,
  /// without a split of K and with no more than this workspace.
  bool takes(const GemmQueue& queue, const cublasLtMatmulAlgo_t& algorithm,
             std::int64_t rows) const;

  /// Queues the product; the library's answer where it does not take it.
  cublasStatus_t run(const GemmArgs& args, const GemmQueue& queue,
                     const cublasLtMatmulAlgo_t& algorithm) const;

 private:
  void set_rows(std::int64_t rows) const;

  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t weights_ = nullptr;
  cublasLtMatrixLayout_t inputs_ = nullptr;
  cublasLtMatrixLayout_t outputs_ = nullptr;
};

}  // namespace headrace
