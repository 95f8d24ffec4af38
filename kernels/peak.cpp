#include "kernels/peak.h"

#include <algorithm>

#include "kernels/thread_pool.h"

namespace headrace {

MachinePeaks measure_peaks(ThreadPool& pool) {
  const double cores = pool.num_threads();
  const double fma = measure_fma_peak();
  return {.float32 = cores * fma,
          .bfloat16 = cores * std::max(fma, measure_bf16_peak()),
          .float16 = 0.0,
          .int8 = cores * measure_int8_peak(),
          .memory_gigabytes = measure_read_bandwidth(pool)};
}

}  // namespace headrace
