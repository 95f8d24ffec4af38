// Marks a function that kernels for the GPU use as well as the host: the same text, so the same
// bits.
#pragma once

#ifdef __CUDACC__
#define HR_HOST_DEVICE __host__ __device__
#else
#define HR_HOST_DEVICE
#endif
