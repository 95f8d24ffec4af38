// A model as a Hugging Face directory, with the names and layouts that transformers reads.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "model/checkpoint/convert_checkpoint.h"
#include "model/checkpoint/directory_tensors.h"
#include "model/checkpoint/encode.h"
#include "model/checkpoint/gguf_file.h"
#include "model/checkpoint/hdf5_layout.h"
#include "model/checkpoint/json_object.h"
#include "model/checkpoint/open_checkpoint.h"
#include "model/checkpoint/partial_file.h"
#include "model/families/family.h"
#include "model/families/write_config_json.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json";

// float32 values that are converted at a time. Of a transposed tensor more, since each piece takes
// a few columns of all rows.
constexpr std::int64_t kPieceValues = std::int64_t{2} << 20;
constexpr std::int64_t kTransposedPieceValues = std::int64_t{16} << 20;

using Sink = std::function<void(std::span<const std::byte>)>;

// A directory's tensor on its way: put together from canonical ones, encoded, handed on in order.
class DirectoryTensorStream {
 public:
  DirectoryTensorStream(Checkpoint& model, const DirectoryTensor& tensor, const Sink& sink)
      : model_(model),
        tensor_(tensor),
        sink_(sink),
        rows_(tensor.shape.front()),
        cols_(tensor.shape.size() == 2 ? tensor.shape.back() : 1) {}

  void run() {
    const bool transposed = tensor_.form == StoredForm::kTransposed;
    const std::int64_t most = transposed ? kTransposedPieceValues : kPieceValues;
    const std::int64_t rows_a_piece = std::clamp<std::int64_t>(most / cols_, 1, rows_);
    for (std::int64_t begin = 0; begin < rows_; begin += rows_a_piece) {
      const std::int64_t end = std::min(begin + rows_a_piece, rows_);
      values_.resize(static_cast<std::size_t>((end - begin) * cols_));
      for (const DirectoryPart& part : tensor_.parts) {
        if (transposed) {
          fill_columns(part, begin, end);
        } else {
          fill_rows(part, begin, end);
        }
      }
      if (tensor_.form == StoredForm::kOneLess) {
        // Exact, since the values come from such sums: reading gives the same bits again.
        for (float& value : values_) value -= 1.0F;
      }
      hand_on();
    }
  }

 private:
  // The part's rows among the stored rows [begin, end).
  void fill_rows(const DirectoryPart& part, std::int64_t begin, std::int64_t end) {
    for_each_run(
        part.runs, 0, part.rows, [&](std::int64_t offset, std::int64_t count, std::int64_t stored) {
          const std::int64_t from = std::max(stored, begin);
          const std::int64_t to = std::min(stored + count, end);
          if (from >= to) return;
          const std::int64_t first = part.first + offset + from - stored;
          read(part.canonical, first, first + to - from, values_.data() + (from - begin) * cols_);
        });
  }

  void read(const std::string& name, std::int64_t begin, std::int64_t end, float* out) {
    const bool is_vector = tensor_.shape.size() == 1;
    model_.read_block(
        name, is_vector ? TensorBlock{0, 1, begin, end} : TensorBlock{begin, end, 0, cols_}, out);
  }

  // Stored rows are the canonical columns [begin, end).
  void fill_columns(const DirectoryPart& part, std::int64_t begin, std::int64_t end) {
    const std::int64_t width = end - begin;
    columns_.resize(static_cast<std::size_t>(part.rows * width));
    model_.read_block(part.canonical, {0, part.rows, begin, end}, columns_.data());
    const float* from = columns_.data();
    for_each_run(part.runs, 0, part.rows,
                 [&](std::int64_t /*offset*/, std::int64_t count, std::int64_t stored) {
                   for (std::int64_t r = stored; r < stored + count; ++r) {
                     for (std::int64_t c = 0; c < width; ++c) {
                       values_[static_cast<std::size_t>(c * cols_ + r)] = *from++;
                     }
                   }
                 });
  }

  void hand_on() {
    bytes_.resize(values_.size() * static_cast<std::size_t>(hdf5_type_bytes(tensor_.type)));
    encode(tensor_.type, values_.data(), static_cast<std::int64_t>(values_.size()), bytes_.data());
    sink_(bytes_);
  }

  Checkpoint& model_;
  const DirectoryTensor& tensor_;
  const Sink& sink_;
  std::int64_t rows_;  // as stored; of a vector its values, with one column
  std::int64_t cols_;
  std::vector<float> values_;
  std::vector<float> columns_;
  std::vector<std::byte> bytes_;
};

std::uint64_t bytes_of(const DirectoryTensor& tensor) {
  std::uint64_t bytes = hdf5_type_bytes(tensor.type);
  for (const std::int64_t length : tensor.shape) bytes *= static_cast<std::uint64_t>(length);
  return bytes;
}

// The header of one safetensors file (safetensors_file.h), padded to a multiple of 8 bytes.
std::string safetensors_header(const std::vector<DirectoryTensor>& tensors) {
  nlohmann::ordered_json json = {{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t offset = 0;
  for (const DirectoryTensor& tensor : tensors) {
    const std::uint64_t end = offset + bytes_of(tensor);
    json[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void write_safetensors(Checkpoint& model, const Family& family, const fs::path& path,
                       const ConvertProgress& progress) {
  const std::vector<DirectoryTensor> tensors = directory_tensors(model, family);
  const std::string header = safetensors_header(tensors);
  const std::uint64_t length = header.size();
  PartialFile file(path);
  file.write_at(0, std::as_bytes(std::span(&length, 1)));
  file.write_at(sizeof(length), std::as_bytes(std::span(header)));
  const std::uint64_t first = sizeof(length) + header.size();
  std::uint64_t total = 0;
  for (const DirectoryTensor& tensor : tensors) total += bytes_of(tensor);
  std::uint64_t done = 0;
  const Sink sink = [&](std::span<const std::byte> bytes) {
    file.write_at(first + done, bytes);
    done += bytes.size();
    if (progress) progress(done, total);
  };
  for (const DirectoryTensor& tensor : tensors) DirectoryTensorStream(model, tensor, sink).run();
  file.commit();
}

void write_text(std::string_view text, const fs::path& path) {
  PartialFile file(path);
  file.write_at(0, std::as_bytes(std::span(text)));
  file.commit();
}

void copy_companion(const ModelFile& companion, const fs::path& directory) {
  const InputFile source(companion.path);
  std::vector<std::byte> bytes(companion.bytes);
  source.read(0, bytes);
  const fs::path target = directory / companion.name;
  fs::create_directories(target.parent_path());
  PartialFile file(target);
  file.write_at(0, bytes);
  file.commit();
}

// A directory that appears at once or not at all; until then it is DIRECTORY.partial.
class PartialDirectory {
 public:
  explicit PartialDirectory(fs::path directory)
      : directory_(std::move(directory)), path_(directory_.string() + ".partial") {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~PartialDirectory() {
    std::error_code error;
    if (!committed_) fs::remove_all(path_, error);
  }
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  const fs::path& path() const { return path_; }

  void commit() {
    fs::rename(path_, directory_);
    committed_ = true;
    sync_directory(directory_.has_parent_path() ? directory_.parent_path() : fs::path("."));
  }

 private:
  fs::path directory_;
  fs::path path_;
  bool committed_ = false;
};

}  // namespace

void convert_to_hugging_face(Checkpoint& model, const fs::path& directory,
                             const ConvertProgress& progress) {
  const std::vector<ModelFile> companions = model.companion_files();
  const fs::path& main = companions.front().path;
  PartialDirectory partial(directory);
  const Family* family = nullptr;
  if (main.filename() == kConfig) {
    for (const ModelFile& companion : companions) copy_companion(companion, partial.path());
    family = &family_of(JsonObject::read(main, kMaxConfigBytes));
  } else {
    family = &directory_family(family_of(GgufFile(main)), model.config());
    write_text(config_json_text(*family, model.config(), model.preferred_dtype(), main.string()),
               partial.path() / kConfig);
  }
  write_safetensors(model, *family, partial.path() / "model.safetensors", progress);
  partial.commit();
}

}  // namespace headrace
