// A model with random weights in place of its own: what it costs to run can be tried where only its
// config.json and tokenizer are at hand.
#pragma once

#include <filesystem>
#include <memory>

#include "model/checkpoint/checkpoint.h"

namespace headrace {

/// A directory with config.json, whose weights are not looked at, or the configuration of any other
/// model. Every value follows from the name of its tensor and its place there alone, so that all
/// splits and all runs see the same weights. They have magnitudes at which hidden states neither
/// grow nor vanish, and bfloat16 holds them exactly. Throws what Checkpoint::open throws.
std::unique_ptr<Checkpoint> open_dummy(const std::filesystem::path& model);

}  // namespace headrace
