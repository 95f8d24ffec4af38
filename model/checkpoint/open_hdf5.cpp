#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/embedded_files.h"
#include "model/checkpoint/file_checkpoint.h"
#include "model/checkpoint/ggml_types.h"
#include "model/checkpoint/hdf5_contents.h"
#include "model/checkpoint/json_object.h"
#include "model/checkpoint/open_checkpoint.h"
#include "model/families/family.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

const StoredType* type_of(std::string_view type) {
  if (type == "F32") return stored_type(GgmlType::kF32);
  return stored_type(type == "F16" ? GgmlType::kF16 : GgmlType::kBF16);
}

StoredTensor stored_tensor(const Hdf5Tensor& tensor) {
  StoredTensor stored;
  stored.file_name = tensor.name;
  stored.stored_shape = tensor.shape;
  stored.type_name = tensor.type;
  if (tensor.quantization() != Quantization::kNone) {
    stored.integers = tensor.integers();
  } else {
    stored.type = type_of(tensor.type);
  }
  stored.offset = tensor.offset;
  stored.bytes = tensor.bytes;
  stored.slice_bounds = tensor.slice_bounds;
  stored.checksum = tensor.checksum;
  return stored;
}

// The checksums stand for all contents: equal manifests are equal models.
std::string manifest(const Hdf5Contents& contents) {
  std::string text = fmt::format("main {}\n", contents.main_file);
  if (contents.quantization) {
    text += fmt::format("computes {}\n", contents.quantization->compute_dtype);
  }
  for (const Hdf5Tensor& t : contents.tensors) {
    text += fmt::format("tensor {} {} [{}] slices [{}] {:016x}\n", t.name, t.type,
                        fmt::join(t.shape, ", "), fmt::join(t.slice_bounds, ", "), t.checksum);
  }
  for (const Hdf5File& f : contents.files) {
    text += fmt::format("file {} {} {:016x}\n", f.name, f.file_bytes, f.checksum);
  }
  return text;
}

std::vector<ModelFile> companions(const fs::path& path, const Hdf5Contents& contents) {
  std::vector<ModelFile> files;
  for (const Hdf5File& file : contents.files) {
    files.push_back({file.name, path / file.name, file.file_bytes, file.extents});
  }
  const auto main = std::find_if(files.begin(), files.end(), [&](const ModelFile& file) {
    return file.name == contents.main_file;
  });
  if (main == files.end()) {
    throw std::invalid_argument(
        fmt::format("{}: the file {}, which says what the model is, is "
                    "missing",
                    path.string(), in_quotes(contents.main_file)));
  }
  std::rotate(files.begin(), main, main + 1);
  return files;
}

// What the configuration was made from lies in the checkpoint as it was, so that every trait a
// family knows is there, also one that it learns later.
void read_configuration(const fs::path& path, FileCheckpointParts& parts) {
  const fs::path& main = parts.companions.front().path;
  if (main.extension() == ".gguf") {
    parts.config_name = "the metadata";
    parts.config = gguf_model_config(GgufFile(main));
    return;
  }
  parts.config_name = main.filename().string();
  const JsonObject config = JsonObject::read(main, kMaxConfigBytes);
  parts.config = family_of(config).from_config_json(config);
  const fs::path generation = path / "generation_config.json";
  if (is_model_file(generation)) {
    parts.generation_config = read_text(generation, kMaxConfigBytes);
  }
  settle_head(main, parts);
}

}  // namespace

std::unique_ptr<Checkpoint> open_hdf5(const fs::path& path) {
  const Hdf5Contents contents = read_hdf5_contents(path);
  FileCheckpointParts parts;
  parts.format = "hdf5";
  parts.types = "F32, F16, BF16, INT8, INT4";
  if (contents.quantization) {
    parts.compute_dtype =
        contents.quantization->compute_dtype == "float32" ? DType::kFloat32 : DType::kBFloat16;
  }
  parts.companions = companions(path, contents);
  parts.config_text = manifest(contents);
  parts.files.emplace_back(path);
  parts.header_bytes = {0};
  for (const Hdf5Tensor& tensor : contents.tensors) {
    const CanonicalName whole{.name = tensor.name, .layout = {}};
    add_tensor(stored_tensor(tensor), std::span(&whole, 1), parts);
  }
  read_configuration(path, parts);
  return std::make_unique<FileCheckpoint>(std::move(parts));
}

}  // namespace headrace
