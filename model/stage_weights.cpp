#include "model/stage_weights.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "kernels/quantize.h"
#include "model/weight_sources.h"

namespace headrace {
namespace {

// Rows are read and packed in pieces of about this many float32 bytes, which bounds the memory that
// loading takes on top of the weights and still gives the file system large reads.
constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

// Packed panels are 16 columns wide, so the last one is padded; slices of integers are filled up
// likewise.
constexpr std::int64_t kPanelColumns = 16;
constexpr std::int64_t kIntegerSliceMultiple = 16;

// Stored bytes by tensor, for progress.
class StoredSizes {
 public:
  explicit StoredSizes(const Checkpoint& checkpoint) {
    for (const TensorInfo& info : checkpoint.tensors()) infos_[info.name] = &info;
  }

  // A block's share of its tensor's bytes.
  std::uint64_t of(const WeightSource& source) const {
    const TensorInfo& info = *infos_.at(source.name);
    const auto all = static_cast<double>(info.rows) * static_cast<double>(info.cols);
    const auto part = static_cast<double>(source.rows()) * static_cast<double>(source.cols());
    return static_cast<std::uint64_t>(static_cast<double>(info.stored_bytes) * (part / all));
  }

 private:
  std::map<std::string, const TensorInfo*> infos_;
};

class Loader {
 public:
  Loader(Checkpoint& checkpoint, Ops& ops, const LoadOptions& options)
      : checkpoint_(checkpoint),
        sizes_(checkpoint),
        types_(checkpoint, options.quantization),
        ops_(ops),
        options_(options) {}

  // Null for a matrix without rows.
  std::unique_ptr<Matrix> matrix(const LinearSource& source) {
    if (source.n() == 0) return nullptr;
    std::unique_ptr<Matrix> matrix =
        ops_.make_matrix({source.n(), source.k(), source.tree, types_.of(source), options_.inputs});
    const bool integers = types_.stored_as_integers(source);
    std::int64_t first_row = 0;
    for (const WeightSource& block : source.weight) {
      if (integers) {
        copy_integers(block, source.tree.bounds, *matrix, first_row);
      } else {
        copy_rows(block, *matrix, first_row);
      }
      first_row += block.rows();
    }
    return matrix;
  }

  std::vector<float> vector(const WeightSource& source) {
    std::vector<float> values(static_cast<std::size_t>(source.cols()));
    checkpoint_.read_block(source.name, source.block, values.data());
    report(sizes_.of(source));
    return values;
  }

  Linear linear(const LinearSource& source) {
    Linear result{.weight = matrix(source), .bias = nullptr};
    std::vector<float> bias;
    for (const WeightSource& piece : source.bias) {
      const std::vector<float> part = vector(piece);
      bias.insert(bias.end(), part.begin(), part.end());
    }
    if (!bias.empty()) result.bias = kept(bias);
    return result;
  }

  NormWeights norm(const NormSource& source) {
    return {.weight = optional_vector(source.weight), .bias = optional_vector(source.bias)};
  }

  LayerWeights layer(const LayerSources& sources) {
    LayerWeights w;
    w.attention_norm = norm(sources.attention_norm);
    w.qkv = linear(sources.qkv);
    w.q_norm = norm(sources.q_norm);
    w.k_norm = norm(sources.k_norm);
    w.output = linear(sources.output);
    w.attention_post_norm = norm(sources.attention_post_norm);
    w.mlp_norm = norm(sources.mlp_norm);
    w.gate_up = linear(sources.gate_up);
    w.down = linear(sources.down);
    w.mlp_post_norm = norm(sources.mlp_post_norm);
    return w;
  }

 private:
  const float* optional_vector(const WeightSource& source) {
    return source.name.empty() ? nullptr : kept(vector(source));
  }

  const float* kept(const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    std::byte* place = ops_.arena().take(bytes.size());
    ops_.arena().upload(place, bytes);
    return reinterpret_cast<const float*>(place);
  }

  void copy_rows(const WeightSource& source, Matrix& matrix, std::int64_t first_row) {
    const auto random = checkpoint_.random_rows(source.name, source.block);
    if (random && matrix.make_rows(first_row, *random)) {
      report(sizes_.of(source));
      return;
    }
    const std::int64_t cols = source.cols();
    const auto row_bytes = static_cast<std::size_t>(cols) * sizeof(float);
    const auto piece =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(kPieceBytes / row_bytes));
    piece_.resize(static_cast<std::size_t>(std::min(piece, source.rows()) * cols));
    TensorBlock block = source.block;
    for (std::int64_t row = 0; row < source.rows(); row += piece) {
      block.row_begin = source.block.row_begin + row;
      block.row_end = std::min(block.row_begin + piece, source.block.row_end);
      checkpoint_.read_block(source.name, block, piece_.data());
      matrix.set_rows(first_row + row,
                      ConstTensorView(reinterpret_cast<const std::byte*>(piece_.data()),
                                      block.row_end - block.row_begin, cols, DType::kFloat32));
    }
    report(sizes_.of(source));
  }

  // Integers go into the matrix as they are.
  void copy_integers(const WeightSource& source, std::span<const std::int32_t> bounds,
                     Matrix& matrix, std::int64_t first_row) {
    const auto piece = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(kPieceBytes) / std::max<std::int64_t>(1, source.cols()));
    TensorBlock block = source.block;
    for (std::int64_t row = 0; row < source.rows(); row += piece) {
      block.row_begin = source.block.row_begin + row;
      block.row_end = std::min(block.row_begin + piece, source.block.row_end);
      checkpoint_.read_integers(source.name, block, bounds, integers_);
      matrix.set_integer_rows(first_row + row, integers_.view());
    }
    report(sizes_.of(source));
  }

  void report(std::uint64_t bytes) {
    bytes_read_ += bytes;
    if (options_.progress) options_.progress(bytes_read_);
  }

  Checkpoint& checkpoint_;
  StoredSizes sizes_;
  WeightTypes types_;
  Ops& ops_;
  const LoadOptions& options_;
  std::vector<float> piece_;
  IntegerBlock integers_;
  std::uint64_t bytes_read_ = 0;
};

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Integers of a slice, and its scales.
std::int64_t int8_bytes(std::int64_t elements) {
  return rounded_up(elements, kIntegerSliceMultiple) + 4;
}
std::int64_t int4_bytes(std::int64_t elements) {
  return rounded_up(elements, kIntegerSliceMultiple) / 2 +
         3 * (rounded_up(elements, kInt4Group) / kInt4Group);
}

std::size_t matrix_bytes(const LinearSource& source, WeightType type) {
  if (source.n() == 0) return 0;
  const std::int64_t columns = rounded_up(source.n(), kPanelColumns);
  if (type.quantization == Quantization::kNone) {
    return static_cast<std::size_t>(columns * source.k()) * dtype_bytes(type.dtype);
  }
  std::int64_t bytes = 0;
  for (std::size_t s = 0; s < source.tree.merges.size(); ++s) {
    const std::int32_t elements = source.tree.bounds[s + 1] - source.tree.bounds[s];
    bytes += type.quantization == Quantization::kInt4 ? int4_bytes(elements) : int8_bytes(elements);
  }
  return static_cast<std::size_t>(columns * bytes);
}

}  // namespace

const Matrix* StageWeights::head(const StagePart& part) const {
  if (!part.head) return nullptr;
  return own_head ? own_head.get() : embedding.get();
}

StageWeights load_stage_weights(Checkpoint& checkpoint, const StagePart& part, Ops& ops,
                                const LoadOptions& options) {
  const PartSources sources = part_sources(checkpoint.config(), part);
  Loader loader(checkpoint, ops, options);
  StageWeights weights;
  // In the order of all_sources(): others may be reading along.
  for (const LayerSources& layer : sources.layers) weights.layers.push_back(loader.layer(layer));
  weights.final_norm = loader.norm(sources.final_norm);
  weights.embedding = loader.matrix(sources.embedding);
  weights.positions = loader.matrix(sources.positions);
  weights.own_head = loader.matrix(sources.head);
  return weights;
}

std::uint64_t stage_stored_bytes(const Checkpoint& checkpoint, const StagePart& part) {
  const StoredSizes sizes(checkpoint);
  std::uint64_t bytes = 0;
  for (const WeightSource& source : all_sources(part_sources(checkpoint.config(), part))) {
    bytes += sizes.of(source);
  }
  return bytes;
}

std::size_t stage_weight_bytes(const Checkpoint& checkpoint, const StagePart& part,
                               WeightType type) {
  const WeightTypes types(checkpoint, type.quantization);
  const auto bytes_of = [&](const LinearSource& source) {
    return matrix_bytes(source, {type.dtype, types.of(source)});
  };
  const PartSources sources = part_sources(checkpoint.config(), part);
  std::size_t bytes =
      bytes_of(sources.embedding) + bytes_of(sources.positions) + bytes_of(sources.head);
  for (const LayerSources& layer : sources.layers) {
    bytes += bytes_of(layer.qkv) + bytes_of(layer.output) + bytes_of(layer.gate_up) +
             bytes_of(layer.down);
  }
  return bytes;
}

std::size_t stage_arena_bytes(const ModelConfig& config, const StagePart& part, DType dtype) {
  std::size_t bytes = 0;
  const auto add = [&](std::int64_t elements, DType type) {
    bytes += arena_bytes(static_cast<std::size_t>(elements) * dtype_bytes(type));
  };
  const auto add_norm = [&](const NormSource& norm) {
    for (const WeightSource* vector : {&norm.weight, &norm.bias}) {
      if (!vector->name.empty()) add(vector->cols(), DType::kFloat32);
    }
  };
  const auto add_linear = [&](const LinearSource& linear) {
    add(linear.n() * linear.k(), dtype);
    std::int64_t bias = 0;
    for (const WeightSource& piece : linear.bias) bias += piece.cols();
    add(bias, DType::kFloat32);
  };
  const PartSources sources = part_sources(config, part);
  for (const LayerSources& layer : sources.layers) {
    for (const LinearSource* linear : {&layer.qkv, &layer.output, &layer.gate_up, &layer.down}) {
      add_linear(*linear);
    }
    for (const NormSource* norm :
         {&layer.attention_norm, &layer.q_norm, &layer.k_norm, &layer.attention_post_norm,
          &layer.mlp_norm, &layer.mlp_post_norm}) {
      add_norm(*norm);
    }
  }
  add_norm(sources.final_norm);
  for (const LinearSource* table : {&sources.embedding, &sources.positions, &sources.head}) {
    if (table->n() > 0) add_linear(*table);
  }
  return bytes;
}

}  // namespace headrace
