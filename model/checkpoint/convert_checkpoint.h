// A model from one format into another, as a stream: whatever its size, memory holds a piece of a
// tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "model/checkpoint/checkpoint.h"

namespace headrace {

/// Called with the bytes that were written of those there will be.
using ConvertProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

struct ConvertOptions {
  /// The type of all matrices. Nothing: stored values stay as they are, quantised ones become what
  /// --dtype auto computes with.
  std::optional<DType> dtype;
  std::string source;   // name of the model, for provenance
  std::string program;  // that converts: "headrace 1.2.3"
};

/// Writes a Headrace HDF5 checkpoint, at once or not at all. Throws std::invalid_argument where it
/// cannot be created, std::runtime_error on I/O errors.
void convert_to_hdf5(Checkpoint& model, const std::filesystem::path& path,
                     const ConvertOptions& options, const ConvertProgress& progress);

/// Writes a Hugging Face directory, which must not exist yet, at once or not at all: the files that
/// the model came with and one model.safetensors, in the names and layouts that transformers has
/// for the family. Of a model from GGUF, whose files are none of a directory, a config.json is made
/// and no tokenizer. Throws std::invalid_argument where config.json cannot say what metadata do.
void convert_to_hugging_face(Checkpoint& model, const std::filesystem::path& directory,
                             const ConvertProgress& progress);

}  // namespace headrace
