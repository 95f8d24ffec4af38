#include "model/checkpoint/file_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/decoder_tensors.h"
#include "model/checkpoint/fingerprint.h"

namespace headrace {
namespace {

// One read: large enough to keep a parallel file system busy, small enough to stay in the cache of
// the core that converts it. Reads after the first start at multiples of it.
constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxBlockBytes = 512;  // above that of any type

std::int64_t rows_of(const StoredTensor& tensor) {
  return tensor.shape.size() == 2 ? tensor.shape.front() : 1;
}

std::uint64_t row_bytes(const StoredTensor& tensor) {
  return static_cast<std::uint64_t>(tensor.stored_shape.back() / tensor.type->block_values *
                                    tensor.type->block_bytes);
}

// Where the file has Hugging Face's row h of a head with head_dim rows: RoPE's pairs (i, head_dim /
// 2 + i) stand beside each other there.
std::int64_t interleaved_row(std::int64_t h, std::int64_t head_dim) {
  const std::int64_t half = head_dim / 2;
  return h < half ? 2 * h : 2 * (h - half) + 1;
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

}  // namespace

void add_tensor(const StoredTensor& stored, std::span<const CanonicalName> names,
                FileCheckpointParts& parts) {
  for (const CanonicalName& name : names) {
    StoredTensor tensor = stored;
    tensor.name = name.name;
    tensor.shape = stored.stored_shape;
    tensor.form = name.layout.form;
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

FileCheckpoint::FileCheckpoint(FileCheckpointParts parts) : parts_(std::move(parts)) {
  for (const StoredTensor& tensor : parts_.tensors) {
    if (by_name_.emplace(tensor.name, &tensor).second) continue;
    throw std::invalid_argument(fmt::format("{}: tensor {} is there twice, the second time as {}",
                                            parts_.files[tensor.file].path().string(),
                                            in_quotes(tensor.name), in_quotes(tensor.file_name)));
  }
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

void FileCheckpoint::read_rows(std::string_view name, std::int64_t begin, std::int64_t end,
                               float* out) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    throw std::out_of_range(fmt::format("there is no tensor {}", in_quotes(name)));
  }
  const StoredTensor& tensor = *found->second;
  if (begin < 0 || begin > end || end > rows_of(tensor)) {
    throw std::out_of_range(fmt::format("rows [{}, {}) of tensor {}, which has {}", begin, end,
                                        in_quotes(name), rows_of(tensor)));
  }
  read_canonical(tensor, {begin, end, 0, tensor.shape.back()}, out);
}

// A block by canonical rows and columns.
void FileCheckpoint::read_canonical(const StoredTensor& tensor, const TensorBlock& block,
                                    float* out) {
  if (block.row_begin == block.row_end || block.col_begin == block.col_end) return;
  const std::int64_t cols = block.col_end - block.col_begin;
  if (tensor.form == StoredForm::kTransposed) {
    read_transposed(tensor, block, out);
  } else if (tensor.shape.size() == 1) {
    for_each_run(tensor.runs, block.col_begin, block.col_end,
                 [&](std::int64_t offset, std::int64_t count, std::int64_t stored) {
                   read_stored(tensor, {0, 1, stored, stored + count}, out + offset);
                 });
  } else {
    for_each_run(tensor.runs, block.row_begin, block.row_end,
                 [&](std::int64_t offset, std::int64_t count, std::int64_t stored) {
                   read_stored(tensor, {stored, stored + count, block.col_begin, block.col_end},
                               out + offset * cols);
                 });
  }
  if (tensor.form == StoredForm::kOneLess) {
    const std::int64_t count = (block.row_end - block.row_begin) * cols;
    for (std::int64_t i = 0; i < count; ++i) out[i] += 1.0F;
  }
}

void FileCheckpoint::read_transposed(const StoredTensor& tensor, const TensorBlock& block,
                                     float* out) {
  const std::int64_t cols = block.col_end - block.col_begin;
  for_each_run(tensor.runs, block.row_begin, block.row_end,
               [&](std::int64_t offset, std::int64_t count, std::int64_t stored) {
                 columns_.resize(static_cast<std::size_t>(count * cols));
                 read_stored(tensor, {block.col_begin, block.col_end, stored, stored + count},
                             columns_.data());
                 for (std::int64_t r = 0; r < count; ++r) {
                   for (std::int64_t c = 0; c < cols; ++c) {
                     out[(offset + r) * cols + c] =
                         columns_[static_cast<std::size_t>(c * count + r)];
                   }
                 }
               });
}

// A block by the file's rows and columns, but with heads in canonical order.
void FileCheckpoint::read_stored(const StoredTensor& tensor, const TensorBlock& block, float* out) {
  const bool interleaved = tensor.form == StoredForm::kInterleavedHeads;
  const std::int64_t cols = tensor.stored_shape.back();
  const std::uint64_t bytes = row_bytes(tensor);
  if (interleaved && tensor.shape.size() == 1) {
    read_interleaved_vector(tensor, out);
  } else if (interleaved) {
    read_head_rows(tensor, block.row_begin, block.row_end, out);
  } else if (block.col_begin == 0 && block.col_end == cols) {
    read_stream(tensor, static_cast<std::uint64_t>(block.row_begin) * bytes,
                static_cast<std::uint64_t>(block.row_end) * bytes, out);
  } else {
    std::vector<float> row(static_cast<std::size_t>(cols));
    for (std::int64_t r = block.row_begin; r < block.row_end; ++r) {
      read_stream(tensor, static_cast<std::uint64_t>(r) * bytes,
                  static_cast<std::uint64_t>(r + 1) * bytes, row.data());
      out = std::copy(row.begin() + block.col_begin, row.begin() + block.col_end, out);
    }
  }
}

// Converts bytes [begin, end) of a tensor, a whole number of blocks, piece by piece. A block that a
// piece cuts is kept at the front of the buffer until the next piece has its rest.
void FileCheckpoint::read_stream(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t end,
                                 float* out) {
  const InputFile& file = parts_.files[tensor.file];
  const auto block_bytes = static_cast<std::uint64_t>(tensor.type->block_bytes);
  std::uint64_t position = tensor.offset + begin;
  const std::uint64_t last = tensor.offset + end;
  std::uint64_t kept = 0;
  buffer_.resize(std::max<std::size_t>(buffer_.size(), kPieceBytes + kMaxBlockBytes));
  while (position < last) {
    const std::uint64_t stop = std::min(last, (position / kPieceBytes + 1) * kPieceBytes);
    file.read(position, std::span(buffer_).subspan(kept, stop - position));
    const std::uint64_t available = kept + stop - position;
    const std::uint64_t blocks = available / block_bytes;
    tensor.type->to_float(buffer_.data(), static_cast<std::int64_t>(blocks), out);
    out += static_cast<std::int64_t>(blocks) * tensor.type->block_values;
    kept = available % block_bytes;
    std::memmove(buffer_.data(), buffer_.data() + blocks * block_bytes, kept);
    position = stop;
  }
}

// Rows [begin, end) in Hugging Face's order. A head that is wanted whole is read at once; of
// another one only the wanted rows are.
void FileCheckpoint::read_head_rows(const StoredTensor& tensor, std::int64_t begin,
                                    std::int64_t end, float* out) {
  const std::int64_t head_dim = parts_.config.head_dim;
  const std::int64_t cols = tensor.shape.back();
  const std::uint64_t bytes = row_bytes(tensor);
  const InputFile& file = parts_.files[tensor.file];
  buffer_.resize(
      std::max<std::size_t>(buffer_.size(), static_cast<std::uint64_t>(head_dim) * bytes));
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t head = row / head_dim * head_dim;
    const std::int64_t stop = std::min(end, head + head_dim);
    const bool whole = stop - row == head_dim;
    const std::uint64_t head_offset = tensor.offset + static_cast<std::uint64_t>(head) * bytes;
    if (whole) {
      file.read(head_offset,
                std::span(buffer_).first(static_cast<std::uint64_t>(head_dim) * bytes));
    }
    for (; row < stop; ++row, out += cols) {
      const std::uint64_t at =
          static_cast<std::uint64_t>(interleaved_row(row - head, head_dim)) * bytes;
      if (!whole) file.read(head_offset + at, std::span(buffer_).subspan(at, bytes));
      tensor.type->to_float(buffer_.data() + at, cols / tensor.type->block_values, out);
    }
  }
}

// The bias that goes with interleaved rows: its values are ordered like them.
void FileCheckpoint::read_interleaved_vector(const StoredTensor& tensor, float* out) {
  const std::int64_t head_dim = parts_.config.head_dim;
  std::vector<float> stored(static_cast<std::size_t>(tensor.shape.back()));
  read_stream(tensor, 0, row_bytes(tensor), stored.data());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const std::int64_t head = row / head_dim * head_dim;
    out[i] = stored[static_cast<std::size_t>(head + interleaved_row(row - head, head_dim))];
  }
}

std::string FileCheckpoint::fingerprint() const {
  return weights_fingerprint(parts_.config_text, parts_.files, parts_.header_bytes);
}

std::string FileCheckpoint::format() const {
  return fmt::format("{}, {} {}", parts_.format, parts_.files.size(),
                     parts_.files.size() == 1 ? "file" : "files");
}

}  // namespace headrace
