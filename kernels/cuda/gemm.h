// Matrix products by cuBLASLt, each shape always by the same algorithm, found on the device
// (gemm_algorithm.h) as one whose rows have the same bits among any number of others. Where the
// library has none for a shape, deterministic products take a fixed number of rows at a time and
// fill up what is missing: steps of few rows then cost as much as that many (kPinnedRows, fewer
// where a row is long). Others warn.
//
// Performance: 2 * m * n * k FLOPs; n * k weights of bytes(T) read once where m is small, which is
// then the bound. To meet: 70 % of the tensor cores' rate in 16 bits (A100 312 TFLOP/s, H100 and
// H200 989) from 1,024 rows on, 75 % of the memory's rate (A100 80GB 2.0 TB/s, H100 3.35, H200 4.8)
// up to 64 rows.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>

#include "kernels/cuda/cuda_arena.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/handles.h"
#include "kernels/gemm_profile.h"

namespace headrace {

struct GemmOptions {
  DType dtype = DType::kBFloat16;  // of x and w; products of float32 do not use TF32
  // Half of it is the library's (its guide asks for 32 MiB at most), half for rows.
  std::size_t workspace_bytes = 0;
  bool deterministic = false;
  GemmProfile* profile = nullptr;  // may be null; outlives the products
  // Once where rows are not steady, and for what is known and refused.
  std::function<void(const std::string&)> warn = {};
};

class CudaGemm {
 public:
  /// Works on the arena's stream.
  CudaGemm(GemmOptions options, CudaArena& arena);
  ~CudaGemm();
  CudaGemm(const CudaGemm&) = delete;
  CudaGemm& operator=(const CudaGemm&) = delete;

  /// Whether products with these weights have their algorithm. Of `args` w, n, k and stride count.
  bool is_pinned(const GemmArgs& args) const { return pinned_.contains(key_of(args)); }

  /// Takes it from the profile; false where that has none, or one that the library refuses.
  bool pin_known(const GemmArgs& args);

  /// Finds it, where there is none yet. w has finite values by now, whatever they are; scratch is
  /// memory of the device that nobody uses meanwhile.
  void pin(const GemmArgs& args, std::span<std::byte> scratch);

  /// Queues the product. Its shape has been pinned; x and out are aligned as w and the rows are, at
  /// most to 16 bytes.
  void multiply(const GemmArgs& args);

 private:
  struct Pinned;
  // n, k, stride, bytes that w and all rows are multiples of
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::uint32_t>;

  Key key_of(const GemmArgs& args) const;
  GemmShape shape_of(const GemmArgs& args) const;
  void require_library();
  void keep(const GemmArgs& args, std::unique_ptr<Pinned> pinned);
  GemmQueue queue() const;
  std::span<std::byte> room_for_rows() const;
  std::int64_t filled_rows(const GemmArgs& args) const;
  void warn(const GemmArgs& args, const Pinned& pinned);
  void run(const GemmArgs& args, const Pinned& pinned) const;
  void run_filled(const GemmArgs& args, const Pinned& pinned) const;

  GemmOptions options_;
  CudaArena& arena_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
  bool warned_ = false;
  std::map<Key, std::unique_ptr<Pinned>> pinned_;
};

}  // namespace headrace
