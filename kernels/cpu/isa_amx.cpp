#include "kernels/cpu/amx_attention.h"
#include "kernels/cpu/amx_gemm.h"
#include "kernels/cpu/amx_weight_only.h"
#include "kernels/cpu/emulated_amx_tiles.h"
#include "kernels/cpu/lanes_avx512.h"
#include "kernels/cpu/simd_gemm.h"

namespace headrace {
namespace {

using Format = PairedBf16Format<Avx512Lanes>;

// Products of weights that become bfloat16 on the way.
template <class Tiles, class Rounding, Quantization W>
ProductKernels weight_only_kernels() {
  return {.tile_rows = kAmxBlockRows,
          .dwords_per_step = ElementBits<W>::kElements / Format::kGroup,
          .expanded_panels = kAmxPanels,
          .pack = pack_groups<Format>,
          .gemm = amx_weight_only_gemm<Tiles, Rounding, W>};
}

// Products of bfloat16 inputs and attention by tiles; everything else as AVX-512 does it.
template <class Tiles, class Rounding>
KernelTable make_amx_table(std::string_view isa) {
  KernelTable table = avx512_kernels(DType::kBFloat16);
  table.isa = isa;
  table.products = {.tile_rows = kAmxBlockRows,
                    .dwords_per_step = 1,
                    .pack = pack<Format>,
                    .gemm = amx_gemm<Tiles>};
  table.int8_weights = weight_only_kernels<Tiles, Rounding, Quantization::kInt8>();
  table.int4_weights = weight_only_kernels<Tiles, Rounding, Quantization::kInt4>();
  table.attention.tile_rows = kAmxRows;
  table.attention.attend = amx_attention<Format, Tiles>;
  return table;
}

}  // namespace

const KernelTable& amx_kernels() {
  static const KernelTable table = make_amx_table<AmxTiles, Bf16Instruction>("amx");
  return table;
}

const KernelTable& emulated_amx_kernels() {
  static const KernelTable table =
      make_amx_table<EmulatedAmxTiles, EmulatedBf16Instruction>("amx_emulated");
  return table;
}

}  // namespace headrace
