// What parts of a model cost a stage in time, relative to each other: what a split of its layers
// over stages goes by.
#pragma once

#include "kernels/ops.h"
#include "model/config.h"
#include "partition/layer_split.h"

namespace headrace {

/// What embedding and head cost in units of one decoder layer's time, in a bulk job. inputs: what
/// products with the weights do with theirs. Estimated from the operations of a row (products, and
/// attention over a typical context), by how fast they run beside each other on CPUs.
EndLoads end_loads(const ModelConfig& config, QuantizedInputs inputs);

}  // namespace headrace
