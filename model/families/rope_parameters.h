// How config.json describes rotary position embeddings: the same keys in every family. Both
// spellings are read, rope_scaling beside rope_theta (transformers up to 4) and rope_parameters
// (from 5 on), with transformers' order of precedence.
#pragma once

#include "model/checkpoint/json_object.h"
#include "model/config.h"

namespace headrace {

/// Throws std::invalid_argument for a scaling that RopeConfig does not have, naming those it has.
/// max_position_embeddings stands in where the original context is not given.
RopeConfig rope_from_config_json(const JsonObject& config, int head_dim,
                                 int max_position_embeddings);

}  // namespace headrace
