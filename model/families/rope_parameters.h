// How config.json describes rotary position embeddings: the same keys in every family. Both
// spellings are read, rope_scaling beside rope_theta (transformers up to 4) and rope_parameters
// (from 5 on), with transformers' order of precedence.
#pragma once

#include <string_view>

#include "model/checkpoint/json_object.h"
#include "model/config.h"

namespace headrace {

/// How a family spells theta and the share of a head that turns, and what transformers takes where
/// config.json leaves them out.
struct RopeDefaults {
  std::string_view theta_key = "rope_theta";
  double theta = 10000.0;
  std::string_view share_key = "partial_rotary_factor";
  double share = 1.0;
  int original_context = 0;  // 0: max_position_embeddings
};

/// Throws std::invalid_argument for a scaling that RopeConfig does not have, naming those it has.
RopeConfig rope_from_config_json(const JsonObject& config, int head_dim,
                                 int max_position_embeddings, const RopeDefaults& defaults = {});

/// The RoPE of one type of layers, for families that have two: rope_parameters with an object for
/// each type (transformers from 5 on), else the theta of `defaults.theta_key` with rope_scaling
/// where `scaled`.
struct LayerTypeRope {
  std::string_view layer_type;  // "full_attention"
  bool scaled = false;
  RopeDefaults defaults;
};
RopeConfig rope_of_layer_type(const JsonObject& config, const ModelConfig& model,
                              const LayerTypeRope& wanted);

}  // namespace headrace
