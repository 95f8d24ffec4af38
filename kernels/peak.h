// What this machine can do at most, measured: the rates that kernels are held against.
#pragma once

namespace headrace {

class ThreadPool;

/// GFLOP/s of one core by fused multiply-adds in the widest registers this CPU has; 0 where that is
/// not known for this kind of CPU.
double measure_fma_peak();

/// GFLOP/s of one core by the bfloat16 dot product instruction; 0 where there is none.
double measure_bf16_dot_peak();

/// GOP/s of one core by the int8 dot product instruction; 0 where there is none.
double measure_int8_dot_peak();

/// GB/s at which all threads of the pool together read some 100 MB, again and again.
double measure_read_bandwidth(ThreadPool& pool);

}  // namespace headrace
