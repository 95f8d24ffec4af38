#include "kernels/cpu/lanes_neon.h"
#include "kernels/cpu/simd_table.h"

namespace headrace {
namespace {

constexpr KernelTable kFloat32 = make_kernel_table<Float32Format<NeonLanes>>("neon");
constexpr KernelTable kBFloat16 = make_kernel_table<SplitBf16Format<NeonLanes>>("neon");

}  // namespace

const KernelTable& neon_kernels(DType compute_dtype) {
  return compute_dtype == DType::kBFloat16 ? kBFloat16 : kFloat32;
}

}  // namespace headrace
