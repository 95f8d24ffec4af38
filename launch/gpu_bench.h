// A GPU as `headrace bench --kernels` measures it, and what this very device does at most.
#pragma once

#include "kernels/gemm_profile.h"
#include "launch/kernel_bench.h"

namespace headrace {

/// GPU 0 of those that this process sees. Its peaks are measured: copying within its memory, bytes
/// read and written, and products of square matrices by the library that all products go to. Throws
/// std::invalid_argument where there is no GPU. profile: of its products, null for none; it
/// outlives all operators.
BenchDevice bench_gpu(GemmProfile* profile);

}  // namespace headrace
