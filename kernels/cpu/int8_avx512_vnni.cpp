#include "kernels/cpu/int8_avx512_vnni.h"
#include "kernels/cpu/simd_attention_int8.h"

namespace headrace {
namespace {

constexpr Int8Kernels kFloat32 =
    make_int8_kernels<Float32Format<Avx512Lanes>, VnniInt8, VnniInt4>();
constexpr Int8Kernels kBFloat16 =
    make_int8_kernels<SplitBf16Format<Avx512Lanes>, VnniInt8, VnniInt4>();

}  // namespace

const Int8Kernels& avx512_vnni_int8_kernels(DType compute_dtype) {
  return compute_dtype == DType::kBFloat16 ? kBFloat16 : kFloat32;
}

}  // namespace headrace
