#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/file_checkpoint.h"
#include "model/checkpoint/ggml_types.h"
#include "model/checkpoint/gguf_file.h"
#include "model/checkpoint/open_checkpoint.h"
#include "model/families/family.h"

namespace headrace {
namespace {

// Llama 3's scaling comes as a tensor: numbers that divide the frequencies.
constexpr std::string_view kRopeDivisors = "rope_freqs.weight";

[[noreturn]] void fail(const GgufFile& gguf, const GgufTensor& tensor, const std::string& what) {
  throw std::invalid_argument(
      fmt::format("{}: tensor {} {}", gguf.files()[static_cast<std::size_t>(tensor.file)].string(),
                  in_quotes(tensor.name), what));
}

// Matrices as [rows, cols], vectors as [length]: a leading dimension of 1 is no dimension.
std::vector<std::int64_t> plain_shape(std::vector<std::int64_t> shape) {
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

StoredTensor stored_tensor(const GgufFile& gguf, const GgufTensor& tensor, const Family& family) {
  const std::optional<CanonicalName> canonical = canonical_name(family, tensor.name);
  if (!canonical) {
    fail(gguf, tensor,
         fmt::format("has no place in a {} model; without it the results would be wrong",
                     family.gguf_architecture));
  }
  StoredTensor stored;
  stored.name = canonical->name;
  stored.file_name = tensor.name;
  stored.shape = plain_shape(tensor.shape);
  stored.type_name = ggml_type_layout(tensor.type)->name;
  stored.type = stored_type(static_cast<GgmlType>(tensor.type));
  stored.file = static_cast<std::size_t>(tensor.file);
  stored.offset = tensor.offset;
  stored.bytes = tensor.bytes;
  stored.interleaved_heads = canonical->interleaved_heads;
  return stored;
}

void read_rope_divisors(const GgufFile& gguf, const GgufTensor& tensor, const InputFile& file,
                        RopeConfig& rope) {
  const std::size_t pairs = static_cast<std::size_t>(rope.rotary_dim) / 2;
  if (tensor.type != static_cast<std::uint32_t>(GgmlType::kF32) || tensor.shape.size() != 1 ||
      tensor.bytes != pairs * sizeof(float)) {
    fail(gguf, tensor, fmt::format("must be {} values of type F32", pairs));
  }
  if (rope.scaling == RopeConfig::Scaling::kYarn) fail(gguf, tensor, "cannot go with yarn scaling");
  rope.frequency_divisors.resize(pairs);
  file.read(tensor.offset, std::as_writable_bytes(std::span(rope.frequency_divisors)));
  const bool sound = std::all_of(rope.frequency_divisors.begin(), rope.frequency_divisors.end(),
                                 [](float d) { return std::isfinite(d) && d > 0.0F; });
  if (!sound) fail(gguf, tensor, "holds a number that is not above 0");
}

// The headers of all files: metadata and tensor tables.
std::vector<ModelFile> header_parts(const GgufFile& gguf, const std::vector<InputFile>& files) {
  std::vector<ModelFile> parts;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::filesystem::path& path = files[i].path();
    parts.push_back(
        {path.filename().string(), path, files[i].size(), {{0, gguf.header_bytes()[i]}}});
  }
  return parts;
}

// A tensor that the configuration is made from belongs to the header.
void add_extent(const GgufTensor& tensor, ModelFile& file) {
  file.extents.push_back({tensor.offset, tensor.offset + tensor.bytes});
  std::sort(file.extents.begin(), file.extents.end(),
            [](const FileExtent& a, const FileExtent& b) { return a.begin < b.begin; });
}

}  // namespace

ModelConfig gguf_model_config(const GgufFile& gguf) {
  ModelConfig config = family_of(gguf).from_gguf(gguf);
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (tensor.name != kRopeDivisors) continue;
    const InputFile file(gguf.files()[static_cast<std::size_t>(tensor.file)]);
    read_rope_divisors(gguf, tensor, file, config.rope);
  }
  return config;
}

std::unique_ptr<Checkpoint> open_gguf(const std::filesystem::path& path) {
  const GgufFile gguf(path);
  const Family& family = family_of(gguf);
  FileCheckpointParts parts;
  parts.format = "gguf";
  parts.config_name = "the metadata";
  parts.types = stored_type_names();
  parts.config = gguf_model_config(gguf);
  for (const std::filesystem::path& name : gguf.files()) parts.files.emplace_back(name);
  parts.header_bytes = gguf.header_bytes();
  parts.companions = header_parts(gguf, parts.files);
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (family.ignores_tensor(tensor.name)) continue;
    if (tensor.name == kRopeDivisors) {
      add_extent(tensor, parts.companions[static_cast<std::size_t>(tensor.file)]);
    } else {
      parts.tensors.push_back(stored_tensor(gguf, tensor, family));
    }
  }
  return std::make_unique<FileCheckpoint>(std::move(parts));
}

}  // namespace headrace
