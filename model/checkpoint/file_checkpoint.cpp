#include "model/checkpoint/file_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/checksum.h"
#include "model/checkpoint/decoder_tensors.h"
#include "model/checkpoint/fingerprint.h"

namespace headrace {
namespace {

std::int64_t rows_of(const StoredTensor& tensor) {
  return tensor.shape.size() == 2 ? tensor.shape.front() : 1;
}

bool lies_in(std::int64_t begin, std::int64_t end, std::int64_t length) {
  return begin >= 0 && begin <= end && end <= length;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// "and 12 more", where there are more than one.
std::string and_more(std::size_t count) {
  return count > 1 ? fmt::format(" (and {} more)", count - 1) : std::string();
}

}  // namespace

FileCheckpoint::FileCheckpoint(FileCheckpointParts parts) : parts_(std::move(parts)) {
  for (const StoredTensor& tensor : parts_.tensors) by_name_.emplace(tensor.name, &tensor);
  check_tensors();
  for (const auto& [name, tensor] : by_name_) {
    infos_.push_back({name, rows_of(*tensor), tensor->shape.back(), std::string(tensor->type->name),
                      tensor->bytes});
  }
}

void FileCheckpoint::check_tensors() const {
  const std::vector<DecoderTensor> expected = decoder_tensors(parts_.config);
  std::set<std::string_view> expected_names;
  std::vector<std::string_view> missing;
  for (const DecoderTensor& tensor : expected) {
    expected_names.insert(tensor.name);
    const auto found = by_name_.find(tensor.name);
    if (found == by_name_.end()) {
      missing.push_back(tensor.name);
    } else {
      check_tensor(*found->second, tensor.shape);
    }
  }
  const std::string where = parts_.files.front().path().string();
  if (!missing.empty()) {
    throw std::invalid_argument(fmt::format("{}: tensor {} is missing{}", where,
                                            in_quotes(missing.front()), and_more(missing.size())));
  }
  std::vector<const StoredTensor*> unknown;
  for (const StoredTensor& tensor : parts_.tensors) {
    if (!expected_names.contains(tensor.name)) unknown.push_back(&tensor);
  }
  if (!unknown.empty()) {
    throw std::invalid_argument(fmt::format(
        "{}: tensor {}{} has no place in this {} with {} layers; without it the results would be "
        "wrong",
        parts_.files[unknown.front()->file].path().string(), in_quotes(unknown.front()->file_name),
        and_more(unknown.size()), parts_.config.architecture, parts_.config.num_layers));
  }
}

void FileCheckpoint::check_tensor(const StoredTensor& tensor,
                                  const std::vector<std::int64_t>& expected) const {
  const std::string where = parts_.files[tensor.file].path().string();
  if (tensor.shape != expected) {
    throw std::invalid_argument(fmt::format(
        "{}: tensor {} has the shape {}, but {} implies {}", where, in_quotes(tensor.file_name),
        shape_text(tensor.shape), parts_.config_name, shape_text(expected)));
  }
  if (tensor.type == nullptr) {
    throw std::invalid_argument(fmt::format("{}: tensor {} has the type {}; supported: {}", where,
                                            in_quotes(tensor.file_name),
                                            in_quotes(tensor.type_name), parts_.types));
  }
}

DType FileCheckpoint::preferred_dtype() const {
  // Norms and biases stay float32 in many 16-bit checkpoints; matrices are what matters.
  const bool any = std::any_of(infos_.begin(), infos_.end(), [](const TensorInfo& info) {
    return info.rows > 1 && info.stored_type == "F32";
  });
  return any ? DType::kFloat32 : DType::kBFloat16;
}

void FileCheckpoint::read_block(std::string_view name, const TensorBlock& block, float* out) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    throw std::out_of_range(fmt::format("there is no tensor {}", in_quotes(name)));
  }
  const StoredTensor& tensor = *found->second;
  const StoredMatrix matrix{
      .file = &parts_.files[tensor.file],
      .type = tensor.type,
      .offset = tensor.offset,
      .rows = rows_of(tensor),
      .cols = tensor.shape.back(),
      .interleaved_head_dim = tensor.interleaved_heads ? parts_.config.head_dim : 0,
      .slice_bounds = tensor.slice_bounds};
  if (!lies_in(block.row_begin, block.row_end, matrix.rows) ||
      !lies_in(block.col_begin, block.col_end, matrix.cols)) {
    throw std::out_of_range(fmt::format(
        "rows [{}, {}), columns [{}, {}) of tensor {}, which has {} x {}", block.row_begin,
        block.row_end, block.col_begin, block.col_end, in_quotes(name), matrix.rows, matrix.cols));
  }
  reader_.read(matrix, block, out);
}

std::string FileCheckpoint::fingerprint() const {
  return weights_fingerprint(parts_.config_text, parts_.files, parts_.header_bytes);
}

std::vector<std::string> FileCheckpoint::damaged_tensors() {
  constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
  std::vector<std::byte> piece;
  std::vector<std::string> damaged;
  for (const auto& [name, tensor] : by_name_) {
    if (!tensor->checksum) continue;
    Checksum checksum;
    const std::uint64_t end = tensor->offset + tensor->bytes;
    for (std::uint64_t at = tensor->offset; at < end; at += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min(kPieceBytes, end - at)));
      parts_.files[tensor->file].read(at, piece);
      checksum.add(piece);
    }
    if (checksum.value() != *tensor->checksum) damaged.push_back(name);
  }
  return damaged;
}

std::string FileCheckpoint::format() const {
  return fmt::format("{}, {} {}", parts_.format, parts_.files.size(),
                     parts_.files.size() == 1 ? "file" : "files");
}

}  // namespace headrace
