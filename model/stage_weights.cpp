#include "model/stage_weights.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>

#include "partition/reduction_slices.h"

namespace headrace {
namespace {

// Rows are read and packed in pieces of about this many float32 bytes, which bounds the memory that
// loading takes on top of the weights and still gives the file system large reads.
constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

// Packed panels are 16 columns wide, so the last one is padded.
constexpr std::int64_t kPanelColumns = 16;

ReductionTree tree_of(ReductionSlices slices) {
  return {.bounds = std::move(slices.bounds), .merges = std::move(slices.merges)};
}

class Loader {
 public:
  Loader(Checkpoint& checkpoint, Ops& ops, const LoadProgress& progress)
      : checkpoint_(checkpoint), config_(checkpoint.config()), ops_(ops), progress_(progress) {
    for (const TensorInfo& info : checkpoint.tensors()) stored_[info.name] = &info;
  }

  std::unique_ptr<Matrix> matrix(const std::vector<std::string>& names, std::int64_t k,
                                 ReductionTree tree) {
    std::int64_t n = 0;
    for (const std::string& name : names) n += info(name).rows;
    std::unique_ptr<Matrix> matrix = ops_.make_matrix(n, k, std::move(tree));
    std::int64_t first_row = 0;
    for (const std::string& name : names) {
      copy_rows(name, *matrix, first_row);
      first_row += info(name).rows;
    }
    return matrix;
  }

  std::vector<float> vector(const std::string& name) {
    const TensorInfo& tensor = info(name);
    std::vector<float> values(static_cast<std::size_t>(tensor.rows * tensor.cols));
    checkpoint_.read_rows(name, 0, tensor.rows, values.data());
    report(tensor.stored_bytes);
    return values;
  }

  LayerWeights layer(int index) {
    const std::string prefix = "model.layers." + std::to_string(index) + ".";
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    const auto single = ReductionTree::single;
    LayerWeights w;
    w.attention_norm = vector(prefix + "input_layernorm.weight");
    w.qkv = linear({attention + "q_proj", attention + "k_proj", attention + "v_proj"},
                   config_.hidden_size, single(config_.hidden_size), config_.qkv_bias);
    w.output = linear(
        {attention + "o_proj"}, config_.num_heads * config_.head_dim,
        tree_of(attention_output_slices(config_.num_heads, config_.num_kv_heads, config_.head_dim)),
        config_.output_bias);
    w.mlp_norm = vector(prefix + "post_attention_layernorm.weight");
    w.gate_up = linear({mlp + "gate_proj", mlp + "up_proj"}, config_.hidden_size,
                       single(config_.hidden_size), config_.mlp_bias);
    w.down = linear({mlp + "down_proj"}, config_.intermediate_size,
                    tree_of(mlp_down_slices(config_.intermediate_size)), config_.mlp_bias);
    return w;
  }

 private:
  const TensorInfo& info(const std::string& name) const { return *stored_.at(name); }

  Linear linear(const std::vector<std::string>& modules, std::int64_t k, ReductionTree tree,
                bool has_bias) {
    std::vector<std::string> names;
    names.reserve(modules.size());
    for (const std::string& module : modules) names.push_back(module + ".weight");
    Linear result{.weight = matrix(names, k, std::move(tree)), .bias = {}};
    if (!has_bias) return result;
    for (const std::string& module : modules) {
      const std::vector<float> part = vector(module + ".bias");
      result.bias.insert(result.bias.end(), part.begin(), part.end());
    }
    return result;
  }

  void copy_rows(const std::string& name, Matrix& matrix, std::int64_t first_row) {
    const TensorInfo& tensor = info(name);
    const auto row_bytes = static_cast<std::size_t>(tensor.cols) * sizeof(float);
    const auto piece =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(kPieceBytes / row_bytes));
    piece_.resize(static_cast<std::size_t>(std::min(piece, tensor.rows) * tensor.cols));
    for (std::int64_t row = 0; row < tensor.rows; row += piece) {
      const std::int64_t end = std::min(row + piece, tensor.rows);
      checkpoint_.read_rows(name, row, end, piece_.data());
      matrix.set_rows(first_row + row,
                      ConstTensorView(reinterpret_cast<const std::byte*>(piece_.data()), end - row,
                                      tensor.cols, DType::kFloat32));
    }
    report(tensor.stored_bytes);
  }

  void report(std::uint64_t bytes) {
    bytes_read_ += bytes;
    if (progress_) progress_(bytes_read_);
  }

  Checkpoint& checkpoint_;
  const ModelConfig& config_;
  Ops& ops_;
  const LoadProgress& progress_;
  std::map<std::string, const TensorInfo*> stored_;
  std::vector<float> piece_;
  std::uint64_t bytes_read_ = 0;
};

constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kLayers = "model.layers.";

bool belongs_to(const StagePart& part, bool tied_head, std::string_view name) {
  if (name == kEmbedding) return part.embedding || (part.head && tied_head);
  if (!name.starts_with(kLayers)) return part.head;
  int layer = -1;
  name.remove_prefix(kLayers.size());
  std::from_chars(name.data(), name.data() + name.size(), layer);
  return layer >= part.begin_layer && layer < part.end_layer;
}

std::size_t matrix_bytes(std::int64_t n, std::int64_t k, DType dtype) {
  const std::int64_t padded = (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
  return static_cast<std::size_t>(padded * k) * dtype_bytes(dtype);
}

std::int64_t layer_elements(const ModelConfig& c) {
  const std::int64_t attention = std::int64_t{c.num_heads} * c.head_dim;
  const std::int64_t kv = std::int64_t{c.num_kv_heads} * c.head_dim;
  return c.hidden_size * (attention + 2 * kv) + attention * c.hidden_size +
         3 * std::int64_t{c.hidden_size} * c.intermediate_size;
}

}  // namespace

const Matrix* StageWeights::head(const StagePart& part) const {
  if (!part.head) return nullptr;
  return own_head ? own_head.get() : embedding.get();
}

StageWeights load_stage_weights(Checkpoint& checkpoint, const StagePart& part, Ops& ops,
                                const LoadProgress& progress) {
  const ModelConfig& config = checkpoint.config();
  const std::string embedding(kEmbedding);
  Loader loader(checkpoint, ops, progress);
  StageWeights weights;
  if (part.embedding) {
    weights.embedding =
        loader.matrix({embedding}, config.hidden_size, ReductionTree::single(config.hidden_size));
  }
  for (int layer = part.begin_layer; layer < part.end_layer; ++layer) {
    weights.layers.push_back(loader.layer(layer));
  }
  if (part.head) {
    weights.final_norm = loader.vector("model.norm.weight");
    if (!(config.tied_head && part.embedding)) {
      weights.own_head =
          loader.matrix({config.tied_head ? embedding : std::string("lm_head.weight")},
                        config.hidden_size, ReductionTree::single(config.hidden_size));
    }
  }
  return weights;
}

std::uint64_t stage_stored_bytes(const Checkpoint& checkpoint, const StagePart& part) {
  std::uint64_t bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (belongs_to(part, checkpoint.config().tied_head, tensor.name)) bytes += tensor.stored_bytes;
  }
  return bytes;
}

std::size_t stage_weight_bytes(const ModelConfig& c, const StagePart& part, DType dtype) {
  const std::int64_t attention = std::int64_t{c.num_heads} * c.head_dim;
  const std::int64_t kv = std::int64_t{c.num_kv_heads} * c.head_dim;
  const std::size_t layer =
      matrix_bytes(attention + 2 * kv, c.hidden_size, dtype) +
      matrix_bytes(c.hidden_size, attention, dtype) +
      matrix_bytes(2 * std::int64_t{c.intermediate_size}, c.hidden_size, dtype) +
      matrix_bytes(c.hidden_size, c.intermediate_size, dtype);
  const std::size_t table = matrix_bytes(c.vocab_size, c.hidden_size, dtype);
  std::size_t bytes = layer * static_cast<std::size_t>(part.num_layers());
  if (part.embedding) bytes += table;
  if (part.head && !(part.embedding && c.tied_head)) bytes += table;
  return bytes;
}

double head_weight_in_layers(const ModelConfig& config) {
  return static_cast<double>(config.vocab_size) * config.hidden_size /
         static_cast<double>(layer_elements(config));
}

}  // namespace headrace
