#include "kernels/cpu/amx_attention.h"
#include "kernels/cpu/amx_gemm.h"
#include "kernels/cpu/emulated_amx_tiles.h"
#include "kernels/cpu/lanes_avx512.h"
#include "kernels/cpu/simd_gemm.h"

namespace headrace {
namespace {

using Format = PairedBf16Format<Avx512Lanes>;

// Products of bfloat16 and attention by tiles; everything else as AVX-512 does it.
template <class Tiles>
KernelTable make_amx_table(std::string_view isa) {
  KernelTable table = avx512_kernels(DType::kBFloat16);
  table.isa = isa;
  table.products = {.tile_rows = kAmxBlockRows,
                    .dwords_per_step = 1,
                    .pack = pack<Format>,
                    .gemm = amx_gemm<Tiles>};
  table.attention.tile_rows = kAmxRows;
  table.attention.attend = amx_attention<Format, Tiles>;
  return table;
}

}  // namespace

const KernelTable& amx_kernels() {
  static const KernelTable table = make_amx_table<AmxTiles>("amx");
  return table;
}

const KernelTable& emulated_amx_kernels() {
  static const KernelTable table = make_amx_table<EmulatedAmxTiles>("amx_emulated");
  return table;
}

}  // namespace headrace
