#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/decoder_tensors.h"
#include "model/checkpoint/embedded_files.h"
#include "model/checkpoint/file_checkpoint.h"
#include "model/checkpoint/json_object.h"
#include "model/checkpoint/open_checkpoint.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/families/family.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{32} << 20;  // 9 MB for 90,000 tensors

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw std::invalid_argument(fmt::format("{}: {}", path.string(), what));
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// A name that the directory has and that says more than "something is missing".
std::string hint(const fs::path& directory) {
  struct Hint {
    std::string_view extension;
    std::string_view meaning;
  };
  constexpr std::array kHints{
      Hint{".gguf", "name the .gguf file itself"},
      Hint{".bin", "PyTorch pickles are not read: convert them to safetensors"},
      Hint{".pth", "PyTorch pickles are not read: convert them to safetensors"},
      Hint{".safetensors", "only model.safetensors and indexed files are read"},
  };
  std::error_code error;
  for (const Hint& hint : kHints) {
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      const fs::path name = entry.path().filename();
      if (name.extension() == hint.extension) {
        return fmt::format("; it has {}: {}", in_quotes(name.string()), hint.meaning);
      }
    }
  }
  return {};
}

// The weight files by name, and which tensor the index expects in which (empty without an index).
struct WeightFiles {
  std::vector<fs::path> paths;
  std::map<std::string, std::size_t, std::less<>> expected;
};

// Files of an index are in its own directory: a name that leads elsewhere is not followed.
void check_file_name(const fs::path& index, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || !is_plain_name(name) ||
      name.find('/') != std::string::npos || !name.ends_with(".safetensors")) {
    fail(index,
         fmt::format("weight_map names the file {}; a .safetensors file in the same directory "
                     "is accepted",
                     in_quotes(name)));
  }
}

WeightFiles files_of_index(const fs::path& index) {
  const JsonObject root = JsonObject::read(index, kMaxIndexBytes);
  const std::optional<JsonObject> map = root.object("weight_map");
  if (!map) root.refuse("weight_map", "an object is needed");
  WeightFiles files;
  std::map<std::string, std::size_t, std::less<>> numbers;
  for (const std::string& tensor : map->keys()) {
    const std::optional<std::string> name = map->text(tensor);
    if (!name) map->refuse(tensor, "the name of a file is needed");
    check_file_name(index, *name);
    const auto [found, is_new] = numbers.emplace(*name, files.paths.size());
    if (is_new) files.paths.push_back(index.parent_path() / *name);
    files.expected.emplace(tensor, found->second);
  }
  if (files.paths.empty()) fail(index, "weight_map is empty");
  return files;
}

WeightFiles find_weights(const fs::path& directory) {
  if (is_there(directory / kSingle)) return {{directory / kSingle}, {}};
  if (is_there(directory / kIndex)) return files_of_index(directory / kIndex);
  fail(directory, fmt::format("has neither {} nor {}{}", kSingle, kIndex, hint(directory)));
}

const StoredType* type_of(std::string_view dtype) {
  if (dtype == "F32") return stored_type(GgmlType::kF32);
  if (dtype == "F16") return stored_type(GgmlType::kF16);
  if (dtype == "BF16") return stored_type(GgmlType::kBF16);
  return nullptr;
}

void add_file(const fs::path& path, const Family& family, FileCheckpointParts& parts,
              std::set<std::string>& names) {
  parts.files.emplace_back(path);
  const SafetensorsHeader header = read_safetensors_header(parts.files.back());
  parts.header_bytes.push_back(header.header_bytes);
  for (const SafetensorsEntry& entry : header.tensors) {
    if (ignores(family, entry.name)) continue;
    if (!names.insert(entry.name).second) {
      fail(path, fmt::format("tensor {} is in an earlier file too", in_quotes(entry.name)));
    }
    StoredTensor stored;
    stored.file_name = entry.name;
    stored.stored_shape = entry.shape;
    stored.type_name = entry.dtype;
    stored.type = type_of(entry.dtype);
    stored.file = parts.files.size() - 1;
    stored.offset = entry.offset;
    stored.bytes = entry.bytes;
    add_tensor(stored, hugging_face_names(family, parts.config, entry.name), parts);
  }
}

void check_index(const WeightFiles& files, const Family& family, const FileCheckpointParts& parts) {
  std::map<std::string_view, std::size_t> found;
  for (const StoredTensor& tensor : parts.tensors) found.emplace(tensor.file_name, tensor.file);
  for (const auto& [tensor, number] : files.expected) {
    if (ignores(family, tensor)) continue;
    const auto at = found.find(tensor);
    if (at == found.end() || at->second != number) {
      fail(files.paths[number],
           fmt::format("lacks the tensor {} that {} expects in it", in_quotes(tensor), kIndex));
    }
  }
}

std::string optional_text(const fs::path& path) {
  return is_there(path) ? read_text(path, kMaxConfigBytes) : std::string();
}

// The small files of the directory: configuration, tokenizer, templates, vocabulary.
std::vector<ModelFile> companions(const fs::path& directory) {
  constexpr std::array<std::string_view, 6> kExtensions{".json",  ".jinja", ".txt",
                                                        ".model", ".md",    ".tiktoken"};
  constexpr std::uintmax_t kMaxBytes = std::uintmax_t{256} << 20;  // the largest tokenizers: 40 MB
  std::vector<fs::path> paths{directory / kConfig};
  for (const fs::path& folder : {directory, directory / "additional_chat_templates"}) {
    for (fs::path& path : model_files_in(folder)) {
      const bool wanted = std::find(kExtensions.begin(), kExtensions.end(),
                                    path.extension().string()) != kExtensions.end() &&
                          fs::file_size(path) <= kMaxBytes;
      const fs::path name = path.filename();
      if (wanted && name != kConfig && name != kIndex) paths.push_back(std::move(path));
    }
  }
  std::vector<ModelFile> files;
  for (const fs::path& path : paths) {
    const std::uint64_t bytes = fs::file_size(path);
    files.push_back(
        {path.lexically_relative(directory).generic_string(), path, bytes, {{0, bytes}}});
  }
  return files;
}

}  // namespace

void settle_head(const fs::path& config_path, FileCheckpointParts& parts) {
  const auto find = [&](std::string_view name) {
    return std::find_if(parts.tensors.begin(), parts.tensors.end(),
                        [&](const StoredTensor& tensor) { return tensor.name == name; });
  };
  const auto head = find(kHeadName);
  const bool has_head = head != parts.tensors.end();
  const bool has_embedding = find(kEmbeddingName) != parts.tensors.end();
  if (!parts.config.tied_head) {
    if (has_head) return;
    fail(config_path, fmt::format("tie_word_embeddings is false or absent, but the weights have no "
                                  "{}",
                                  kHeadName));
  }
  if (has_head && has_embedding) parts.config.tied_head = false;
  if (has_head && !has_embedding) head->name = kEmbeddingName;
}

std::unique_ptr<Checkpoint> open_hugging_face(const fs::path& directory) {
  const fs::path config_path = directory / kConfig;
  if (!is_there(config_path)) {
    fail(directory,
         fmt::format("has no {}, which says what the model is{}", kConfig, hint(directory)));
  }
  const JsonObject config = JsonObject::read(config_path, kMaxConfigBytes);
  const Family& family = family_of(config);
  FileCheckpointParts parts;
  parts.format = "safetensors";
  parts.config_name = kConfig;
  parts.types = "F32, F16, BF16";
  parts.config = family.from_config_json(config);
  parts.config_text = read_text(config_path, kMaxConfigBytes);
  parts.generation_config = optional_text(directory / "generation_config.json");
  parts.companions = companions(directory);

  const WeightFiles files = find_weights(directory);
  std::set<std::string> names;
  for (const fs::path& path : files.paths) add_file(path, family, parts, names);
  check_index(files, family, parts);
  join_pieces(parts);
  settle_head(config_path, parts);
  return std::make_unique<FileCheckpoint>(std::move(parts));
}

}  // namespace headrace
