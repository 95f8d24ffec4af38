// Matrix products by cuBLASLt, each always by the same algorithm: the one that its heuristics name
// first for kPinnedRows rows, without a split of K. So an element is summed in the same way
// whatever the number of rows; that this makes its bits independent of them follows from how such
// algorithms work, but no GPU has been asked yet.
//
// Performance: 2 * m * n * k FLOPs; n * k weights of bytes(T) read once where m is small, which is
// then the bound. To meet: 70 % of the tensor cores' rate in 16 bits (A100 312 TFLOP/s, H100 and
// H200 989) from 1,024 rows on, 75 % of the memory's rate (A100 80GB 2.0 TB/s, H100 3.35, H200 4.8)
// up to 64 rows.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "kernels/cuda/handles.h"
#include "kernels/tensor.h"

namespace headrace {

/// Rows for which algorithms are chosen: between those of decoding and of prompts.
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

class CudaGemm {
 public:
  /// dtype is that of x and w; products of float32 do not use TF32.
  CudaGemm(DType dtype, cudaStream_t stream, std::size_t workspace_bytes);
  ~CudaGemm();
  CudaGemm(const CudaGemm&) = delete;
  CudaGemm& operator=(const CudaGemm&) = delete;

  /// Chooses the algorithm for products with these weights, where it has not been yet. Needs only
  /// w, n, k and stride.
  void pin(const GemmArgs& args);

  /// Queues the product. Its shape has been pinned; x and out are aligned as w and the rows are, at
  /// most to 16 bytes.
  void multiply(const GemmArgs& args);

 private:
  struct Pinned;
  // n, k, stride, bytes that w and all rows are multiples of
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::uint32_t>;

  Key key_of(const GemmArgs& args) const;

  DType dtype_;
  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
  std::map<Key, std::unique_ptr<Pinned>> pinned_;
};

}  // namespace headrace
