#include "model/weight_sources.h"

#include <fmt/format.h>

#include <utility>

namespace headrace {
namespace {

ReductionTree tree_of(const ReductionSlices& slices) {
  return {.bounds = slices.bounds, .merges = slices.merges};
}

IndexRange scaled(IndexRange range, int factor) {
  return {range.begin * factor, range.end * factor};
}

WeightSource vector_source(std::string name, IndexRange range) {
  return {.name = std::move(name),
          .block = {.row_begin = 0, .row_end = 1, .col_begin = range.begin, .col_end = range.end}};
}

WeightSource rows_source(std::string name, IndexRange rows, std::int64_t cols) {
  return {.name = std::move(name),
          .block = {.row_begin = rows.begin, .row_end = rows.end, .col_begin = 0, .col_end = cols}};
}

NormSource norm_source(const ModelConfig& config, const std::string& name, IndexRange range) {
  NormSource source{.weight = vector_source(name + ".weight", range), .bias = {}};
  if (config.norm_bias) source.bias = vector_source(name + ".bias", range);
  return source;
}

// A module of a layer and the rows of it that this rank has.
struct ModuleRows {
  std::string module;
  IndexRange rows;
};

// Column-parallel: outputs are cut, so is the bias.
LinearSource column_parallel(const std::vector<ModuleRows>& modules, int k, bool has_bias) {
  LinearSource source{.weight = {}, .tree = ReductionTree::single(k), .bias = {}};
  for (const ModuleRows& m : modules) {
    source.weight.push_back(rows_source(m.module + ".weight", m.rows, k));
    if (has_bias) source.bias.push_back(vector_source(m.module + ".bias", m.rows));
  }
  return source;
}

// Row-parallel: inputs are cut, between slices of the sum.
LinearSource row_parallel(const std::string& module, int n, IndexRange columns, ReductionTree tree,
                          bool has_bias) {
  LinearSource source{.weight = {{.name = module + ".weight",
                                  .block = {.row_begin = 0,
                                            .row_end = n,
                                            .col_begin = columns.begin,
                                            .col_end = columns.end}}},
                      .tree = std::move(tree),
                      .bias = {}};
  if (has_bias) source.bias.push_back(vector_source(module + ".bias", {0, n}));
  return source;
}

// The norms of one layer, as far as the model has them.
class LayerNorms {
 public:
  LayerNorms(const ModelConfig& config, std::string prefix)
      : config_(config), prefix_(std::move(prefix)) {}

  NormSource hidden(bool has, const char* name) const {
    return has ? norm(name, {0, config_.hidden_size}) : NormSource{};
  }
  // One head's vector for all heads, those of the rank's heads, or a vector over all heads, which
  // every rank norms whole.
  NormSource heads(const char* name, IndexRange own, int num_heads) const {
    IndexRange range{0, 1};
    if (config_.qk_norm == QkNorm::kOwnHead) range = own;
    if (config_.qk_norm == QkNorm::kProjection) range = {0, num_heads};
    if (config_.qk_norm == QkNorm::kNone) return {};
    return {.weight = vector_source(fmt::format("{}{}.weight", prefix_, name),
                                    scaled(range, config_.head_dim)),
            .bias = {}};
  }

 private:
  NormSource norm(const char* name, IndexRange range) const {
    return norm_source(config_, prefix_ + name, range);
  }

  const ModelConfig& config_;
  std::string prefix_;
};

LinearSource up_source(const ModelConfig& c, const std::string& mlp, IndexRange own) {
  std::vector<ModuleRows> modules;
  if (c.gated_mlp) modules.push_back({mlp + "gate_proj", own});
  modules.push_back({mlp + "up_proj", own});
  return column_parallel(modules, c.hidden_size, c.mlp_bias);
}

LayerSources layer_sources(const ModelConfig& c, const StageShard& shard, int layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  const TensorShard& own = shard.own;
  const auto rank = static_cast<std::size_t>(own.rank);
  const IndexRange queries = scaled(own.heads, c.head_dim);
  const IndexRange keys = scaled(own.kv_heads, c.head_dim);
  const LayerNorms norms(c, prefix);
  return {
      .attention_norm = norms.hidden(c.pre_norms, "input_layernorm"),
      .qkv = column_parallel({{attention + "q_proj", queries},
                              {attention + "k_proj", keys},
                              {attention + "v_proj", keys}},
                             c.hidden_size, c.qkv_bias),
      .q_norm = norms.heads("self_attn.q_norm", own.heads, c.num_heads),
      .k_norm = norms.heads("self_attn.k_norm", own.kv_heads, c.num_kv_heads),
      .sinks = c.attention_sinks ? vector_source(attention + "sinks", own.heads) : WeightSource{},
      .output = row_parallel(attention + "o_proj", c.hidden_size, queries,
                             tree_of(shard.attention_sum.parts[rank]), c.output_bias),
      .attention_post_norm = norms.hidden(c.post_norms, "self_attn.post_norm"),
      .mlp_norm = norms.hidden(c.pre_norms && !c.shared_pre_norm, "post_attention_layernorm"),
      .gate_up = up_source(c, mlp, own.intermediate),
      .down = row_parallel(mlp + "down_proj", c.hidden_size, own.intermediate,
                           tree_of(shard.mlp_sum.parts[rank]), c.mlp_bias),
      .mlp_post_norm = norms.hidden(c.post_norms, "mlp.post_norm"),
  };
}

void append(const LinearSource& source, std::vector<WeightSource>& all) {
  all.insert(all.end(), source.weight.begin(), source.weight.end());
  all.insert(all.end(), source.bias.begin(), source.bias.end());
}

void append(const WeightSource& vector, std::vector<WeightSource>& all) {
  if (!vector.name.empty()) all.push_back(vector);
}

void append(const NormSource& source, std::vector<WeightSource>& all) {
  append(source.weight, all);
  append(source.bias, all);
}

}  // namespace

std::int64_t LinearSource::n() const {
  std::int64_t rows = 0;
  for (const WeightSource& source : weight) rows += source.rows();
  return rows;
}

PartSources part_sources(const ModelConfig& config, const StagePart& part) {
  const StageShard shard = stage_shard(config, part);
  const auto table = [&](std::string_view name) {
    LinearSource source{
        .weight = {}, .tree = ReductionTree::single(config.hidden_size), .bias = {}};
    if (!shard.own.vocab.empty()) {
      source.weight.push_back(rows_source(std::string(name), shard.own.vocab, config.hidden_size));
    }
    return source;
  };
  PartSources sources;
  if (part.embedding) sources.embedding = table(kEmbeddingName);
  if (part.embedding && config.learned_positions) {
    sources.positions = {
        .weight = {rows_source(std::string(kPositionsName), {0, config.max_position_embeddings},
                               config.hidden_size)},
        .tree = ReductionTree::single(config.hidden_size),
        .bias = {}};
  }
  for (int layer = part.begin_layer; layer < part.end_layer; ++layer) {
    sources.layers.push_back(layer_sources(config, shard, layer));
  }
  if (part.head) {
    sources.final_norm = norm_source(config, "model.norm", {0, config.hidden_size});
    if (!(config.tied_head && part.embedding)) {
      sources.head = table(config.tied_head ? kEmbeddingName : kHeadName);
    }
  }
  return sources;
}

std::vector<WeightSource> all_sources(const PartSources& sources) {
  std::vector<WeightSource> all;
  for (const LayerSources& layer : sources.layers) {
    append(layer.attention_norm, all);
    append(layer.qkv, all);
    append(layer.q_norm, all);
    append(layer.k_norm, all);
    append(layer.sinks, all);
    append(layer.output, all);
    append(layer.attention_post_norm, all);
    append(layer.mlp_norm, all);
    append(layer.gate_up, all);
    append(layer.down, all);
    append(layer.mlp_post_norm, all);
  }
  append(sources.final_norm, all);
  append(sources.embedding, all);
  append(sources.positions, all);
  append(sources.head, all);
  return all;
}

}  // namespace headrace
