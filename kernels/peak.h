// What this machine can do at most, measured: the rates that kernels are held against.
#pragma once

namespace headrace {

class ThreadPool;

/// GFLOP/s of one core by fused multiply-adds in the widest registers this CPU has; 0 where that is
/// not known for this kind of CPU.
double measure_fma_peak();

/// GFLOP/s of one core by the bfloat16 products of its tiles or, without, by the dot product
/// instruction; 0 where there is neither.
double measure_bf16_peak();

/// The same of int8, in GOP/s.
double measure_int8_peak();

/// GB/s at which all threads of the pool together read some 100 MB, again and again.
double measure_read_bandwidth(ThreadPool& pool);

/// The most that a device does: of all its cores together, GFLOP/s, and of its memory, GB/s. 0: not
/// known.
struct MachinePeaks {
  double float32 = 0.0;
  double bfloat16 = 0.0;
  double float16 = 0.0;
  double int8 = 0.0;
  double memory_gigabytes = 0.0;
};

/// Of this CPU's cores as far as the pool has threads: a tenth of a second.
MachinePeaks measure_peaks(ThreadPool& pool);

}  // namespace headrace
