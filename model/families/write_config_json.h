// config.json of a model that came without one: from GGUF metadata, by way of ModelConfig.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "kernels/tensor.h"
#include "model/config.h"
#include "model/families/family.h"

namespace headrace {

/// The family whose directory a GGUF file's model becomes: its own, but Mistral for a "llama" with
/// windows.
const Family& directory_family(const Family& family, const ModelConfig& model);

/// The text of config.json, which reads back as this configuration. dtype is what the weights are
/// kept in. Throws std::invalid_argument, naming source and trait, for what the family's
/// config.json cannot say.
std::string config_json_text(const Family& family, const ModelConfig& model, DType dtype,
                             const std::string& source);

/// The shortest number that reads back as this value: 1e-05, not 9.99999974e-06.
nlohmann::ordered_json json_number(float value);

/// What query times key is multiplied by.
float attention_scale(const ModelConfig& model);

}  // namespace headrace
