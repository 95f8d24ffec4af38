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
#include "model/families/gguf_rope.h"

namespace headrace {
namespace {

// Llama 3's scaling comes as a tensor: numbers that divide the frequencies.
constexpr std::string_view kRopeDivisors = "rope_freqs.weight";

// The list of divisors that a tensor holds; null where it is none.
std::vector<float>* divisors_of(std::string_view name, RopeConfig& rope) {
  if (name == kRopeDivisors) return &rope.frequency_divisors;
  if (name == kGgufLongDivisors) return &rope.long_divisors;
  if (name == kGgufShortDivisors) return &rope.short_divisors;
  return nullptr;
}

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

void add_stored_tensor(const GgufFile& gguf, const GgufTensor& tensor, const Family& family,
                       FileCheckpointParts& parts) {
  const std::vector<CanonicalName> names = gguf_names(family, parts.config, tensor.name);
  if (names.empty()) {
    fail(gguf, tensor,
         fmt::format("has no place in a {} model; without it the results would be wrong",
                     family.gguf_architecture));
  }
  StoredTensor stored;
  stored.file_name = tensor.name;
  stored.stored_shape = plain_shape(tensor.shape);
  stored.type_name = ggml_type_layout(tensor.type)->name;
  stored.type = stored_type(static_cast<GgmlType>(tensor.type));
  stored.file = static_cast<std::size_t>(tensor.file);
  stored.offset = tensor.offset;
  stored.bytes = tensor.bytes;
  add_tensor(stored, names, parts);
}

void read_divisors(const GgufFile& gguf, const GgufTensor& tensor, const RopeConfig& rope,
                   const InputFile& file, std::vector<float>& divisors) {
  const std::size_t pairs = static_cast<std::size_t>(rope.rotary_dim) / 2;
  if (tensor.type != static_cast<std::uint32_t>(GgmlType::kF32) || tensor.shape.size() != 1 ||
      tensor.bytes != pairs * sizeof(float)) {
    fail(gguf, tensor, fmt::format("must be {} values of type F32", pairs));
  }
  divisors.resize(pairs);
  file.read(tensor.offset, std::as_writable_bytes(std::span(divisors)));
  const bool sound = std::all_of(divisors.begin(), divisors.end(),
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

bool is_divisors(std::string_view name) {
  RopeConfig none;
  return divisors_of(name, none) != nullptr;
}

// Takes a list of divisors into the configuration.
void take_divisors(const GgufFile& gguf, const GgufTensor& tensor, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  std::vector<float>* divisors = divisors_of(tensor.name, rope);
  const bool is_long = rope.scaling == RopeConfig::Scaling::kLong;
  if (is_long == (divisors == &rope.frequency_divisors)) {
    fail(gguf, tensor, fmt::format("has no place in this {}", config.architecture));
  }
  if (rope.scaling == RopeConfig::Scaling::kYarn) fail(gguf, tensor, "cannot go with yarn scaling");
  const InputFile file(gguf.files()[static_cast<std::size_t>(tensor.file)]);
  read_divisors(gguf, tensor, rope, file, *divisors);
}

void require_long_divisors(const RopeConfig& rope, const std::filesystem::path& path) {
  if (rope.scaling != RopeConfig::Scaling::kLong) return;
  if (!rope.long_divisors.empty() && !rope.short_divisors.empty()) return;
  throw std::invalid_argument(fmt::format("{}: tensors {} and {} are needed, both", path.string(),
                                          kGgufLongDivisors, kGgufShortDivisors));
}

}  // namespace

ModelConfig gguf_model_config(const GgufFile& gguf) {
  const Family& family = family_of(gguf);
  ModelConfig config = family.from_gguf(gguf);
  for (const GgufTensor& tensor : gguf.tensors()) {
    if (is_divisors(tensor.name) && !ignores(family, tensor.name)) {
      take_divisors(gguf, tensor, config);
    }
  }
  require_long_divisors(config.rope, gguf.files().front());
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
    if (ignores(family, tensor.name)) continue;
    if (is_divisors(tensor.name)) {
      add_extent(tensor, parts.companions[static_cast<std::size_t>(tensor.file)]);
    } else {
      add_stored_tensor(gguf, tensor, family, parts);
    }
  }
  return std::make_unique<FileCheckpoint>(std::move(parts));
}

}  // namespace headrace
