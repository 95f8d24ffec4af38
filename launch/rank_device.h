// What a rank computes on: its CPU, or a GPU of its node, and how much of that GPU's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/environment.h"
#include "kernels/cuda_backend.h"
#include "launch/generate_options.h"

namespace headrace {

struct RankSetup;

struct RankDevice {
  bool is_gpu = false;
  std::string isa = "auto";  // of CPUs: --isa, as the ranks settle it
  int index = 0;             // among the GPUs that this rank sees
  int num_ranks = 1;         // of the node that compute on it
  CudaDevice gpu;
  std::shared_ptr<GemmProfile> profile = {};  // with --device-profile, on a GPU

  std::string short_name() const;  // "CPU" or "GPU 0"
  std::string name() const;        // "CPU" or "GPU 0 (NVIDIA H200)"
};

/// By --device, what is there, and what the node's other ranks take. Collective over the node.
/// Throws std::invalid_argument where the rank cannot have what was asked for.
RankDevice choose_device(const Environment& environment, const GenerateOptions& options);

/// --isa auto is AMX where all CPUs that compute have it, so that all compute the same. Collective
/// over the world.
void settle_isa(const Environment& environment, const GenerateOptions& options, RankDevice& device);

/// The device's operators for this rank.
std::unique_ptr<Ops> make_rank_ops(const GenerateOptions& options, const RankDevice& device,
                                   DType dtype, ThreadPool& pool);

/// The class of numbers that this rank's layers give, for the job's key.
std::string numeric_class(const GenerateOptions& options, const RankSetup& setup);

/// Settles what the KV cache may take: of a GPU, what is left of this rank's share. Collective over
/// the node. Throws std::invalid_argument where weights and workspace alone do not fit.
void plan_device_memory(const Environment& environment, const GenerateOptions& options,
                        RankSetup& setup);

/// Takes the GPU's memory, all at once; only the transport has buffers of its own beside it.
void reserve_device_memory(const Environment& environment, const GenerateOptions& options,
                           RankSetup& setup);

}  // namespace headrace
