// Reading a rank's weights, together with the other ranks that need the same bytes.
#pragma once

#include "comm/environment.h"
#include "launch/generate_options.h"
#include "launch/generate_setup.h"
#include "model/stage_weights.h"

namespace headrace {

/// The weights of this rank's part. Rank 0 prints how far it is every few seconds, and at the end
/// what all ranks read, in which time. Collective over the world.
StageWeights load_weights(const Environment& environment, const GenerateOptions& options,
                          RankSetup& setup);

}  // namespace headrace
