// How fast blocks of a KV cache go to host memory and back: `headrace bench --kernels --part swap`.
#pragma once

#include <vector>

#include "kernels/ops.h"
#include "launch/kernel_bench.h"
#include "model/config.h"

namespace headrace {

/// What all layers of the model have of a sequence of 1,024 tokens, there and back, a call each. On
/// a GPU the bus bounds it, whose peak nothing here knows, so no share of a bound is given.
std::vector<KernelRate> swap_rates(const ModelConfig& model, const AttentionShape& shape, Ops& ops);

}  // namespace headrace
