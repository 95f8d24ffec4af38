// A queue of the device, by its name alone: headers that pass one on need nothing of CUDA.
#pragma once

struct CUstream_st;

namespace headrace {

/// What CUDA calls cudaStream_t. Launches and copies on one run in the order they were given.
using Stream = CUstream_st*;

}  // namespace headrace
