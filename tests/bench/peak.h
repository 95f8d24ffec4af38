// The multiply-add rate of one core, measured: what the matrix products are held against.
#pragma once

namespace headrace {

/// GFLOP/s of fused multiply-adds in the widest registers this CPU has.
double measure_fma_peak();

/// GFLOP/s of the bfloat16 dot product instruction; 0 where there is none.
double measure_bf16_dot_peak();

/// GOP/s of the int8 dot product instruction; 0 where there is none.
double measure_int8_dot_peak();

}  // namespace headrace
