// Fills a kernel table from a format. See simd_math.h for the unnamed namespace.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd_attention.h"
#include "kernels/cpu/simd_gemm.h"
#include "kernels/cpu/simd_norm.h"
#include "kernels/cpu/simd_rows.h"
#include "kernels/cpu/simd_weight_only.h"

namespace headrace {
namespace {

template <class F>
constexpr KernelTable make_kernel_table(std::string_view isa) {
  return {
      .isa = isa,
      .products = {.tile_rows = F::Lanes::kTileRows,
                   .dwords_per_step = F::kDwordsPerStep,
                   .pack = pack<F>,
                   .gemm = float_gemm<F>},
      .int8_weights = make_weight_only_kernels<F, Quantization::kInt8>(),
      .int4_weights = make_weight_only_kernels<F, Quantization::kInt4>(),
      .norm = norm<F>,
      .convert = convert<F>,
      .activate = activate<F>,
      .scale = scale<F>,
      .add_scaled = add_scaled<F>,
      .soft_cap = soft_cap<F>,
      .add_partials = add_partials<F>,
      .attention = {.tile_rows = F::Lanes::kTileRows,
                    .rope_and_store = rope_and_store<F, ComputeKvStore<F>>,
                    .attend = attention<F>},
      .row_statistics = row_statistics<F>,
      .take_in_logits = take_in_logits<F>,
  };
}

}  // namespace
}  // namespace headrace
