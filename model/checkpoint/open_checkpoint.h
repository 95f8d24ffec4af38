// One function for each format that Checkpoint::open knows.
#pragma once

#include <filesystem>
#include <memory>

#include "model/checkpoint/checkpoint.h"

namespace headrace {

/// A directory with config.json and model.safetensors, or model.safetensors.index.json and its
/// files.
std::unique_ptr<Checkpoint> open_hugging_face(const std::filesystem::path& directory);

/// A GGUF file, or the first of a split model.
std::unique_ptr<Checkpoint> open_gguf(const std::filesystem::path& path);

}  // namespace headrace
