#include "kernels/cpu/amx_int8.h"
#include "kernels/cpu/emulated_amx_tiles.h"
#include "kernels/cpu/int8_avx512_vnni.h"

namespace headrace {
namespace {

// Inputs as the dot product instruction takes them, and nothing to set off: weights are signed.
struct SignedInt8 : VnniInt8 {
  static constexpr bool kOffset = false;
};

// Products of int8 weights by tiles; everything else as AVX-512 does it. F: of the inputs.
template <class Tiles, class F>
Int8Kernels make_amx_int8_kernels(DType compute_dtype) {
  Int8Kernels kernels = avx512_vnni_int8_kernels(compute_dtype);
  kernels.products = {.tile_rows = kAmxRows,
                      .dwords_per_step = 1,
                      .pack = pack_int8<F, SignedInt8, Quantization::kInt8>,
                      .gemm = amx_int8_gemm<Tiles>};
  kernels.signed_weights = true;
  return kernels;
}

template <class Tiles>
const Int8Kernels& amx_int8_kernels_of(DType compute_dtype) {
  static const Int8Kernels float32 =
      make_amx_int8_kernels<Tiles, Float32Format<Avx512Lanes>>(DType::kFloat32);
  static const Int8Kernels bfloat16 =
      make_amx_int8_kernels<Tiles, SplitBf16Format<Avx512Lanes>>(DType::kBFloat16);
  return compute_dtype == DType::kBFloat16 ? bfloat16 : float32;
}

}  // namespace

const Int8Kernels& amx_int8_kernels(DType compute_dtype) {
  return amx_int8_kernels_of<AmxTiles>(compute_dtype);
}

const Int8Kernels& emulated_amx_int8_kernels(DType compute_dtype) {
  return amx_int8_kernels_of<EmulatedAmxTiles>(compute_dtype);
}

}  // namespace headrace
