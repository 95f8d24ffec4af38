// One function for each format that Checkpoint::open knows, and what they share.
#pragma once

#include <filesystem>
#include <memory>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/file_checkpoint.h"
#include "model/checkpoint/gguf_file.h"

namespace headrace {

/// Of config.json and its like; real ones have a few KB.
inline constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{4} << 20;

/// A directory with config.json and model.safetensors, or model.safetensors.index.json and its
/// files.
std::unique_ptr<Checkpoint> open_hugging_face(const std::filesystem::path& directory);

/// A GGUF file, or the first of a split model.
std::unique_ptr<Checkpoint> open_gguf(const std::filesystem::path& path);

/// A Headrace checkpoint.
std::unique_ptr<Checkpoint> open_hdf5(const std::filesystem::path& path);

/// The configuration that a GGUF file implies: metadata, tensor table, and the tensors that are
/// none of the decoder's. Those are kept with the companion files, so that a Headrace checkpoint
/// gives the same.
ModelConfig gguf_model_config(const GgufFile& gguf);

/// What transformers does with tie_word_embeddings: the table that is there serves as both; where
/// both are there, each serves as itself. Throws std::invalid_argument naming the configuration
/// where the head is missing.
void settle_head(const std::filesystem::path& config_path, FileCheckpointParts& parts);

}  // namespace headrace
