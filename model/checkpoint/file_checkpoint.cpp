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

// Leaves of a fused tensor the part that the layout names.
void take_part(const StoredLayout& layout, const FileCheckpointParts& parts, StoredTensor& tensor) {
  const PartRows part = rows_of_part(parts.config, layout);
  const std::string where = parts.files[tensor.file].path().string();
  if (tensor.shape.empty() || tensor.shape.front() != part.stored_rows) {
    throw std::invalid_argument(
        fmt::format("{}: tensor {} has the shape {}, but {} implies {} {} in it", where,
                    in_quotes(tensor.file_name), shape_text(tensor.stored_shape), parts.config_name,
                    part.stored_rows, tensor.form == StoredForm::kTransposed ? "columns" : "rows"));
  }
  if (tensor.shape.size() == 1 && tensor.type != nullptr && tensor.type->block_values > 1) {
    throw std::invalid_argument(
        fmt::format("{}: tensor {} has the type {}, in which a vector cannot be parted", where,
                    in_quotes(tensor.file_name), in_quotes(tensor.type_name)));
  }
  tensor.runs = part.runs;
  tensor.shape.front() = part.rows;
  tensor.bytes = tensor.bytes / static_cast<std::uint64_t>(part.stored_rows) *
                 static_cast<std::uint64_t>(part.rows);
}

// take(offset, count, stored) for every run of the block's rows (a vector's values): the block that
// holds `count` of them in the file, from row `offset` of the block on.
template <class Take>
void for_each_stored_block(const StoredTensor& tensor, const TensorBlock& block, const Take& take) {
  const bool is_vector = tensor.shape.size() == 1;
  const std::int64_t begin = is_vector ? block.col_begin : block.row_begin;
  const std::int64_t end = is_vector ? block.col_end : block.row_end;
  for_each_run(tensor.runs, begin, end,
               [&](std::int64_t offset, std::int64_t count, std::int64_t first) {
                 TensorBlock stored = block;
                 if (is_vector) {
                   stored.col_begin = first;
                   stored.col_end = first + count;
                 } else if (tensor.form == StoredForm::kTransposed) {
                   stored = {block.col_begin, block.col_end, first, first + count};
                 } else {
                   stored.row_begin = first;
                   stored.row_end = first + count;
                 }
                 take(offset, count, stored);
               });
}

// take(piece, block) for every piece of a vector that has values of the block, and those of it.
template <class Take>
void for_each_piece(const StoredTensor& tensor, const TensorBlock& block, const Take& take) {
  const std::int64_t length = tensor.stored_shape.front();
  const RowRuns runs{.first = 0, .length = length, .stride = length};
  for_each_run(
      runs, block.col_begin, block.col_end,
      [&](std::int64_t /*offset*/, std::int64_t count, std::int64_t first) {
        const std::int64_t begin = first % length;
        take(static_cast<std::size_t>(first / length), TensorBlock{0, 1, begin, begin + count});
      });
}

// The pieces of a vector by their numbers.
using Pieces = std::map<int, StoredTensor>;

void add_piece(const StoredTensor& tensor, const std::filesystem::path& file, Pieces& pieces) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(
        fmt::format("{}: tensor {} {}", file.string(), in_quotes(tensor.file_name), what));
  };
  if (tensor.shape.size() != 1) {
    fail(fmt::format("has the shape {}; a vector is needed", shape_text(tensor.shape)));
  }
  if (!pieces.emplace(*tensor.piece, tensor).second) fail("is there twice");
  const StoredTensor& first = pieces.begin()->second;
  if (tensor.shape != first.shape || tensor.type != first.type) {
    fail(fmt::format("has another shape or type than {}", in_quotes(first.file_name)));
  }
}

StoredTensor joined(const Pieces& pieces, const std::filesystem::path& file) {
  StoredTensor whole = pieces.begin()->second;
  const auto count = static_cast<int>(pieces.size());
  if (pieces.begin()->first != 0 || pieces.rbegin()->first != count - 1) {
    throw std::invalid_argument(fmt::format("{}: of {} there are {} tensors, numbered up to {}",
                                            file.string(), in_quotes(whole.name), count,
                                            pieces.rbegin()->first));
  }
  whole.shape = {whole.shape.front() * count};
  whole.bytes *= static_cast<std::uint64_t>(count);
  for (const auto& [number, piece] : pieces) whole.pieces.push_back({piece.file, piece.offset});
  return whole;
}

}  // namespace

void add_tensor(const StoredTensor& stored, std::span<const CanonicalName> names,
                FileCheckpointParts& parts) {
  for (const CanonicalName& name : names) {
    StoredTensor tensor = stored;
    tensor.name = name.name;
    tensor.shape = stored.stored_shape;
    tensor.form = name.layout.form;
    tensor.piece = name.piece;
    if (tensor.form == StoredForm::kVectorInRows && tensor.shape.size() == 2) {
      tensor.shape = {tensor.shape[0] * tensor.shape[1]};
      tensor.stored_shape = tensor.shape;
    }
    // A vector has no other order than its own.
    if (tensor.shape.size() != 2 && tensor.form == StoredForm::kTransposed) {
      tensor.form = StoredForm::kPlain;
    }
    if (tensor.form == StoredForm::kTransposed) std::swap(tensor.shape[0], tensor.shape[1]);
    if (name.layout.part != FusedPart::kWhole) {
      take_part(name.layout, parts, tensor);
    } else if (!tensor.shape.empty()) {
      tensor.runs = {.first = 0, .length = tensor.shape.front(), .stride = tensor.shape.front()};
    }
    parts.tensors.push_back(std::move(tensor));
  }
}

void join_pieces(FileCheckpointParts& parts) {
  std::map<std::string, Pieces> vectors;
  std::erase_if(parts.tensors, [&](const StoredTensor& tensor) {
    if (!tensor.piece) return false;
    add_piece(tensor, parts.files[tensor.file].path(), vectors[tensor.name]);
    return true;
  });
  for (const auto& [name, pieces] : vectors) {
    parts.tensors.push_back(joined(pieces, parts.files[pieces.begin()->second.file].path()));
  }
}

FileCheckpoint::FileCheckpoint(FileCheckpointParts parts) : parts_(std::move(parts)) {
  for (const StoredTensor& tensor : parts_.tensors) {
    if (by_name_.emplace(tensor.name, &tensor).second) continue;
    throw std::invalid_argument(fmt::format("{}: tensor {} is there twice, the second time as {}",
                                            parts_.files[tensor.file].path().string(),
                                            in_quotes(tensor.name), in_quotes(tensor.file_name)));
  }
  check_tensors();
  for (const auto& [name, tensor] : by_name_) {
    infos_.push_back({.name = name,
                      .rows = rows_of(*tensor),
                      .cols = tensor->shape.back(),
                      .stored_type = std::string(tensor->type->name),
                      .stored_bytes = tensor->bytes,
                      .as_stored = tensor->form != StoredForm::kOneLess});
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
  const StoredTensor& tensor = tensor_with(name, block);
  if (!tensor.pieces.empty()) {
    read_pieces(tensor, block, out);
  } else if (tensor.form == StoredForm::kTransposed) {
    read_transposed(tensor, block, out);
  } else {
    read_runs(tensor, block, out);
  }
  if (tensor.form == StoredForm::kOneLess) {
    const std::int64_t count =
        (block.row_end - block.row_begin) * (block.col_end - block.col_begin);
    for (std::int64_t i = 0; i < count; ++i) out[i] += 1.0F;
  }
}

std::uint64_t FileCheckpoint::bytes_to_read(std::string_view name, const TensorBlock& block) const {
  const StoredTensor& tensor = tensor_with(name, block);
  const StoredMatrix matrix = stored_matrix(tensor);
  std::uint64_t bytes = 0;
  if (!tensor.pieces.empty()) {
    for_each_piece(tensor, block, [&](std::size_t /*piece*/, const TensorBlock& part) {
      bytes += TensorReader::bytes_to_read(matrix, part);
    });
    return bytes;
  }
  for_each_stored_block(
      tensor, block,
      [&](std::int64_t /*offset*/, std::int64_t /*count*/, const TensorBlock& stored) {
        bytes += TensorReader::bytes_to_read(matrix, stored);
      });
  return bytes;
}

// The tensor of that name, which must have the block.
const StoredTensor& FileCheckpoint::tensor_with(std::string_view name,
                                                const TensorBlock& block) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    throw std::out_of_range(fmt::format("there is no tensor {}", in_quotes(name)));
  }
  const StoredTensor& tensor = *found->second;
  const std::int64_t rows = rows_of(tensor);
  const std::int64_t cols = tensor.shape.back();
  if (!lies_in(block.row_begin, block.row_end, rows) ||
      !lies_in(block.col_begin, block.col_end, cols)) {
    throw std::out_of_range(fmt::format(
        "rows [{}, {}), columns [{}, {}) of tensor {}, which has {} x {}", block.row_begin,
        block.row_end, block.col_begin, block.col_end, in_quotes(name), rows, cols));
  }
  return tensor;
}

StoredMatrix FileCheckpoint::stored_matrix(const StoredTensor& tensor) const {
  const bool interleaved = tensor.form == StoredForm::kInterleavedHeads;
  return {.file = &parts_.files[tensor.file],
          .type = tensor.type,
          .offset = tensor.offset,
          .rows = tensor.stored_shape.size() == 2 ? tensor.stored_shape.front() : 1,
          .cols = tensor.stored_shape.back(),
          .interleaved_head_dim = interleaved ? parts_.config.head_dim : 0,
          .slice_bounds = tensor.slice_bounds};
}

void FileCheckpoint::read_runs(const StoredTensor& tensor, const TensorBlock& block, float* out) {
  const StoredMatrix matrix = stored_matrix(tensor);
  const std::int64_t cols = tensor.shape.size() == 1 ? 1 : block.col_end - block.col_begin;
  for_each_stored_block(
      tensor, block, [&](std::int64_t offset, std::int64_t /*count*/, const TensorBlock& stored) {
        reader_.read(matrix, stored, out + offset * cols);
      });
}

void FileCheckpoint::read_pieces(const StoredTensor& tensor, const TensorBlock& block, float* out) {
  StoredMatrix matrix = stored_matrix(tensor);
  for_each_piece(tensor, block, [&](std::size_t piece, const TensorBlock& part) {
    matrix.file = &parts_.files[tensor.pieces[piece].file];
    matrix.offset = tensor.pieces[piece].offset;
    reader_.read(matrix, part, out);
    out += part.col_end - part.col_begin;
  });
}

void FileCheckpoint::read_transposed(const StoredTensor& tensor, const TensorBlock& block,
                                     float* out) {
  const StoredMatrix matrix = stored_matrix(tensor);
  const std::int64_t cols = block.col_end - block.col_begin;
  for_each_stored_block(
      tensor, block, [&](std::int64_t offset, std::int64_t count, const TensorBlock& stored) {
        columns_.resize(static_cast<std::size_t>(count * cols));
        reader_.read(matrix, stored, columns_.data());
        for (std::int64_t r = 0; r < count; ++r) {
          for (std::int64_t c = 0; c < cols; ++c) {
            out[(offset + r) * cols + c] = columns_[static_cast<std::size_t>(c * count + r)];
          }
        }
      });
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
