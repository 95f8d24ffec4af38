#include "kernels/cpu/lanes_portable.h"
#include "kernels/cpu/simd_table.h"

namespace headrace {
namespace {

constexpr KernelTable kFloat32 = make_kernel_table<Float32Format<PortableLanes>>("portable");
constexpr KernelTable kBFloat16 = make_kernel_table<SplitBf16Format<PortableLanes>>("portable");

}  // namespace

const KernelTable& portable_kernels(DType compute_dtype) {
  return compute_dtype == DType::kBFloat16 ? kBFloat16 : kFloat32;
}

}  // namespace headrace
