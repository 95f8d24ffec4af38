#include "model/checkpoint/convert_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "model/checkpoint/decoder_tensors.h"
#include "model/checkpoint/encode.h"
#include "model/checkpoint/hdf5_writer.h"
#include "partition/reduction_slices.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// float32 values that are converted at a time, and stored bytes of slices that are collected before
// they are written.
constexpr std::int64_t kPieceValues = std::int64_t{2} << 20;
constexpr std::int64_t kGroupBytes = std::int64_t{64} << 20;

using Sink = std::function<void(std::span<const std::byte>)>;

// A tensor on its way: read by rows, encoded, handed on in the order it will be stored in.
class TensorStream {
 public:
  TensorStream(Checkpoint& model, const Hdf5Tensor& tensor, const Sink& sink)
      : model_(model),
        tensor_(tensor),
        sink_(sink),
        rows_(tensor.shape.size() == 2 ? tensor.shape.front() : 1),
        cols_(tensor.shape.back()),
        value_bytes_(static_cast<std::int64_t>(hdf5_type_bytes(tensor.type))) {}

  void run() {
    if (tensor_.slice_bounds.empty()) return stream_rows();
    std::size_t first = 0;
    while (first + 1 < tensor_.slice_bounds.size()) first = stream_slices(first);
  }

 private:
  std::int64_t rows_a_piece(std::int64_t cols) const {
    return std::clamp<std::int64_t>(kPieceValues / cols, 1, rows_);
  }

  // Columns [col_begin, col_end) of rows from `row` on, as many as fit a piece.
  std::int64_t read_piece(std::int64_t row, std::int64_t col_begin, std::int64_t col_end) {
    const std::int64_t count = std::min(rows_a_piece(col_end - col_begin), rows_ - row);
    values_.resize(static_cast<std::size_t>(count * (col_end - col_begin)));
    model_.read_block(tensor_.name, {row, row + count, col_begin, col_end}, values_.data());
    return count;
  }

  void stream_rows() {
    for (std::int64_t row = 0; row < rows_;) {
      row += read_piece(row, 0, cols_);
      bytes_.resize(values_.size() * static_cast<std::size_t>(value_bytes_));
      encode(tensor_.type, values_.data(), static_cast<std::int64_t>(values_.size()),
             bytes_.data());
      sink_(bytes_);
    }
  }

  // A group of slices from `first` on that is collected together, so that wide pieces of the
  // source's rows are read; returns the slice behind them.
  std::size_t stream_slices(std::size_t first) {
    const std::vector<std::int64_t>& bounds = tensor_.slice_bounds;
    const std::int64_t begin = bounds[first];
    std::size_t last = first + 1;
    while (last + 1 < bounds.size() &&
           (bounds[last + 1] - begin) * rows_ * value_bytes_ <= kGroupBytes) {
      ++last;
    }
    const std::int64_t end = bounds[last];
    bytes_.resize(static_cast<std::size_t>((end - begin) * rows_ * value_bytes_));
    for (std::int64_t row = 0; row < rows_;) {
      const std::int64_t count = read_piece(row, begin, end);
      for (std::size_t s = first; s < last; ++s) deal_slice(s, {begin, end}, row, count);
      row += count;
    }
    sink_(bytes_);
    return last;
  }

  struct Columns {
    std::int64_t begin;
    std::int64_t end;
  };

  // Puts the piece's columns of one slice in their place in the group.
  void deal_slice(std::size_t slice, Columns group, std::int64_t row, std::int64_t count) {
    const std::int64_t begin = tensor_.slice_bounds[slice];
    const std::int64_t width = tensor_.slice_bounds[slice + 1] - begin;
    std::byte* out = bytes_.data() + ((begin - group.begin) * rows_ + row * width) * value_bytes_;
    const float* from = values_.data() + (begin - group.begin);
    for (std::int64_t r = 0; r < count; ++r) {
      encode(tensor_.type, from, width, out);
      from += group.end - group.begin;
      out += width * value_bytes_;
    }
  }

  Checkpoint& model_;
  const Hdf5Tensor& tensor_;
  const Sink& sink_;
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t value_bytes_;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
};

std::string stored_type_for(const TensorInfo& info, DType preferred, std::optional<DType> wanted) {
  const bool is_matrix = info.rows > 1;
  if (info.as_stored && is_matrix && wanted) return *wanted == DType::kFloat32 ? "F32" : "BF16";
  return type_to_write(info, preferred);
}

// The matrices whose products are summed over tensor-parallel ranks are cut by columns, between
// reduction slices: stored slice by slice, each rank's part is one piece. How they are cut here is
// only a matter of layout; readers take the bounds from the file.
std::vector<std::int64_t> slice_bounds_for(const TensorInfo& info, const ModelConfig& config) {
  ReductionSlices slices;
  if (info.name.ends_with("o_proj.weight") && config.head_dim > 0 &&
      info.cols == std::int64_t{config.num_heads} * config.head_dim) {
    slices = attention_output_slices(config.num_heads, config.num_kv_heads, config.head_dim);
  } else if (info.name.ends_with("down_proj.weight")) {
    slices = mlp_down_slices(static_cast<int>(info.cols));
  }
  if (slices.bounds.size() <= 2) return {};
  return {slices.bounds.begin(), slices.bounds.end()};
}

Hdf5Plan plan_of(const Checkpoint& model, const ConvertOptions& options) {
  Hdf5Plan plan;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (DecoderTensor& tensor : decoder_tensors(model.config())) {
    shapes.emplace(std::move(tensor.name), std::move(tensor.shape));
  }
  for (const TensorInfo& info : model.tensors()) {
    Hdf5Tensor tensor;
    tensor.name = info.name;
    tensor.type = stored_type_for(info, model.preferred_dtype(), options.dtype);
    tensor.shape = shapes.at(info.name);
    tensor.slice_bounds = slice_bounds_for(info, model.config());
    plan.tensors.push_back(std::move(tensor));
  }
  plan.files = model.companion_files();
  plan.provenance = {
      .source = options.source, .fingerprint = model.fingerprint(), .program = options.program};
  return plan;
}

std::uint64_t bytes_of(const Hdf5Tensor& tensor) {
  std::uint64_t bytes = hdf5_type_bytes(tensor.type);
  for (const std::int64_t length : tensor.shape) bytes *= static_cast<std::uint64_t>(length);
  return bytes;
}

void stream_all(Checkpoint& model, const std::vector<Hdf5Tensor>& tensors, const Sink& sink,
                const ConvertProgress& progress) {
  std::uint64_t total = 0;
  for (const Hdf5Tensor& tensor : tensors) total += bytes_of(tensor);
  std::uint64_t done = 0;
  const Sink counting = [&](std::span<const std::byte> bytes) {
    sink(bytes);
    done += bytes.size();
    if (progress) progress(done, total);
  };
  for (const Hdf5Tensor& tensor : tensors) TensorStream(model, tensor, counting).run();
}

}  // namespace

void convert_to_hdf5(Checkpoint& model, const fs::path& path, const ConvertOptions& options,
                     const ConvertProgress& progress) {
  Hdf5Plan plan = plan_of(model, options);
  const std::vector<Hdf5Tensor> tensors = plan.tensors;
  Hdf5Writer writer(path, std::move(plan));
  stream_all(
      model, tensors, [&](std::span<const std::byte> bytes) { writer.append(bytes); }, progress);
  writer.finish();
}

}  // namespace headrace
