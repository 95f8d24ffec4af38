// Which algorithm a product takes. cuBLASLt states no algorithm whose rows have the same bits among
// any number of others, so the device is asked: each algorithm multiplies rows that are all alike,
// 1 to 1,024 of them, and every row has to come out alike, bit for bit. The first one in
// the heuristics' order that stands this is taken. Where none does, one that stands it for one
// number of rows, and at last a row at a time, which depends on nothing.
//
// The answer is one of library, driver and device, and a device profile keeps it under their names
// (launch/device_profile.h): then a job that goes on elsewhere takes the same algorithms. What it
// saves is little beside the weights' way to the device: 16 products a shape and algorithm, of
// which the largest matrix of Llama-3.1-8B (head, 1.05 GB in bfloat16) is read in 0.25 ms each on
// an H200, 5 shapes a model.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/cuda_arena.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/gemm_profile.h"

namespace headrace {

struct GemmAlgorithm {
  cublasLtMatmulAlgo_t algorithm = {};
  GemmRows rows = GemmRows::kSteady;
  std::int64_t most_rows = 0;  // for which `rows` has been seen to hold
};

/// Where algorithms are tried out: memory of the device that nobody uses meanwhile.
struct GemmProbe {
  const GemmPlan& plan;
  GemmQueue queue;
  CudaArena& arena;
  std::span<std::byte> inputs;   // for x
  std::span<std::byte> outputs;  // for what comes out
  std::int64_t filled_rows = 0;  // where there is a choice of how many they are always
};

/// `shape` has weights, of whatever finite values. Without `filled_rows` nothing is filled up, and
/// the first algorithm that takes any number of rows serves where none is steady. Throws
/// std::runtime_error where the device fails, or no algorithm multiplies at all.
GemmAlgorithm choose_algorithm(const GemmProbe& probe, const GemmArgs& shape, DType dtype,
                               std::uint32_t alignment);

}  // namespace headrace
