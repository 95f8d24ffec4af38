// The table of contents of a Headrace HDF5 checkpoint. HDF5 is asked once what is where; bytes are
// then read from the file itself, as those of the other formats are.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/hdf5_layout.h"

namespace headrace {

/// Where a checkpoint comes from; for people.
struct Hdf5Provenance {
  std::string source;       // name of the model it was made from, without directories
  std::string fingerprint;  // of that model's weights
  std::string program;      // that made it
};

/// What a file with quantised matrices says about them.
struct Hdf5Quantization {
  std::string type;           // what was asked for: "int8" or "int4"
  std::string compute_dtype;  // what --dtype auto computes with: "bfloat16" or "float32"
};

/// The name of the report on them among the files.
inline constexpr const char* kQuantizationReport = "quantization.txt";

struct Hdf5Contents {
  std::string main_file;  // among files: config.json, or the GGUF file the model was made from
  Hdf5Provenance provenance;
  std::optional<Hdf5Quantization> quantization;
  std::vector<Hdf5Tensor> tensors;  // in order of name
  std::vector<Hdf5File> files;      // in order of name
};

/// Whether a file starts as HDF5 files do.
bool is_hdf5(const std::filesystem::path& path);

/// Throws std::invalid_argument naming the file and what is wrong with it: no checkpoint, another
/// version, unfinished, or damaged. Every range lies in the file and on no other one.
Hdf5Contents read_hdf5_contents(const std::filesystem::path& path);

/// The path of the file that says what the model is: of config.json, or of the GGUF file it was
/// made from. Throws like read_hdf5_contents().
std::filesystem::path hdf5_main_file(const std::filesystem::path& path);

/// One file of the checkpoint, or nothing where it has none of that name. Throws like
/// read_hdf5_contents().
std::optional<Hdf5File> find_hdf5_file(const std::filesystem::path& path, const std::string& name);

/// The names of the checkpoint's files that start with prefix, in order.
std::vector<std::string> hdf5_file_names(const std::filesystem::path& path,
                                         std::string_view prefix);

}  // namespace headrace
