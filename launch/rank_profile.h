// A job's device profile: read before the model is loaded, by rank 0 for all, and added to once
// every product has its algorithm.
#pragma once

#include "comm/environment.h"
#include "launch/generate_options.h"
#include "launch/rank_device.h"

namespace headrace {

/// Gives a rank with a GPU what --device-profile knows of it, and says so on rank 0; nothing
/// without that option. Collective over the world. Throws std::invalid_argument on all ranks where
/// the file is damaged, or no rank computes on a GPU.
void open_rank_profile(const Environment& environment, const GenerateOptions& options,
                       RankDevice& device);

/// Rank 0 writes what all have found. Collective over the world.
void save_rank_profile(const Environment& environment, const GenerateOptions& options,
                       const RankDevice& device);

}  // namespace headrace
