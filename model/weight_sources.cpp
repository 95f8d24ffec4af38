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

LayerSources layer_sources(const ModelConfig& c, const StageShard& shard, int layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  const TensorShard& own = shard.own;
  const auto rank = static_cast<std::size_t>(own.rank);
  const IndexRange hidden{0, c.hidden_size};
  const IndexRange queries = scaled(own.heads, c.head_dim);
  const IndexRange keys = scaled(own.kv_heads, c.head_dim);
  return {
      .attention_norm = vector_source(prefix + "input_layernorm.weight", hidden),
      .qkv = column_parallel({{attention + "q_proj", queries},
                              {attention + "k_proj", keys},
                              {attention + "v_proj", keys}},
                             c.hidden_size, c.qkv_bias),
      .output = row_parallel(attention + "o_proj", c.hidden_size, queries,
                             tree_of(shard.attention_sum.parts[rank]), c.output_bias),
      .mlp_norm = vector_source(prefix + "post_attention_layernorm.weight", hidden),
      .gate_up = column_parallel(
          {{mlp + "gate_proj", own.intermediate}, {mlp + "up_proj", own.intermediate}},
          c.hidden_size, c.mlp_bias),
      .down = row_parallel(mlp + "down_proj", c.hidden_size, own.intermediate,
                           tree_of(shard.mlp_sum.parts[rank]), c.mlp_bias),
  };
}

void append(const LinearSource& source, std::vector<WeightSource>& all) {
  all.insert(all.end(), source.weight.begin(), source.weight.end());
  all.insert(all.end(), source.bias.begin(), source.bias.end());
}

}  // namespace

std::int64_t LinearSource::n() const {
  std::int64_t rows = 0;
  for (const WeightSource& source : weight) rows += source.rows();
  return rows;
}

PartSources part_sources(const ModelConfig& config, const StagePart& part) {
  const StageShard shard = stage_shard(config, part);
  const auto table = [&](const char* name) {
    LinearSource source{
        .weight = {}, .tree = ReductionTree::single(config.hidden_size), .bias = {}};
    if (!shard.own.vocab.empty()) {
      source.weight.push_back(rows_source(name, shard.own.vocab, config.hidden_size));
    }
    return source;
  };
  constexpr const char* kEmbedding = "model.embed_tokens.weight";
  PartSources sources;
  if (part.embedding) sources.embedding = table(kEmbedding);
  for (int layer = part.begin_layer; layer < part.end_layer; ++layer) {
    sources.layers.push_back(layer_sources(config, shard, layer));
  }
  if (part.head) {
    sources.final_norm = vector_source("model.norm.weight", {0, config.hidden_size});
    if (!(config.tied_head && part.embedding)) {
      sources.head = table(config.tied_head ? kEmbedding : "lm_head.weight");
    }
  }
  return sources;
}

std::vector<WeightSource> all_sources(const PartSources& sources) {
  std::vector<WeightSource> all;
  append(sources.embedding, all);
  for (const LayerSources& layer : sources.layers) {
    all.push_back(layer.attention_norm);
    append(layer.qkv, all);
    append(layer.output, all);
    all.push_back(layer.mlp_norm);
    append(layer.gate_up, all);
    append(layer.down, all);
  }
  if (!sources.final_norm.name.empty()) all.push_back(sources.final_norm);
  append(sources.head, all);
  return all;
}

}  // namespace headrace
