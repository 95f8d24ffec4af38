#include "kernels/cpu/lanes_avx512.h"
#include "kernels/cpu/simd_table.h"

namespace headrace {
namespace {

constexpr KernelTable kFloat32 = make_kernel_table<Float32Format<Avx512Lanes>>("avx512");
constexpr KernelTable kBFloat16 = make_kernel_table<SplitBf16Format<Avx512Lanes>>("avx512");

}  // namespace

const KernelTable& avx512_kernels(DType compute_dtype) {
  return compute_dtype == DType::kBFloat16 ? kBFloat16 : kFloat32;
}

}  // namespace headrace
