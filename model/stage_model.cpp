#include "model/stage_model.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/thread_pool.h"

namespace headrace {
namespace {

// Rows are dealt out in near-equal runs.
IndexRange dealt_rows(int num_rows, int rank, int size) {
  return {num_rows * rank / size, num_rows * (rank + 1) / size};
}

}  // namespace

StageModel::StageModel(const ModelConfig& config, StagePart part, StageWeights weights, Ops& ops,
                       const StageSize& size, TensorExchange* exchange)
    : config_(config),
      part_(part),
      weights_(std::move(weights)),
      ops_(ops),
      size_(size),
      exchange_(exchange),
      shard_(stage_shard(config, part)),
      attention_(attention_shape(config, part, size.kv_type)),
      logit_change_{.scale = config.logit_scale, .soft_cap = config.logit_soft_cap},
      rotations_(config.rope, part.num_layers() > 0 ? size.max_rows : 0, ops.arena()) {
  take_workspace();
  if (part.num_layers() > 0) {
    if (config.window_rope) {
      window_rotations_.emplace(*config.window_rope, size.max_rows, ops.arena());
    }
    kv_places_ = stage_kv_places(config, part, ops, size);
    kv_ = ops.arena().take(kv_places_.block_bytes * static_cast<std::size_t>(size.num_blocks));
    if (size.num_swap_blocks > 0) {
      swap_ = ops.arena().make_swap_memory(kv_places_.pieces(kv_, size.num_blocks),
                                           size.num_swap_blocks);
    }
  }
  ops.reserve(most_rows(part, size), size.max_context, attention_);
  if (part.head) {
    statistics_.resize(static_cast<std::size_t>(most_own_rows(size, part)));
    best_.resize(static_cast<std::size_t>(size.max_logit_rows));
  }
  partials_.reserve(std::max(shard_.attention_sum.merges.size(), shard_.mlp_sum.merges.size()));
  given_.assign(static_cast<std::size_t>(part.tensor_size), 0);
  in_turn_.assign(partials_.capacity(), 1);
  if (!in_turn_.empty()) in_turn_.front() = 0;
  own_tokens_.reserve(static_cast<std::size_t>(size.max_rows));
  positions_.reserve(static_cast<std::size_t>(size.max_rows));
}

void StageModel::take_workspace() {
  const WorkspaceBytes bytes(config_, part_, ops_.compute_dtype(), size_);
  DeviceArena& arena = ops_.arena();
  normed_ = arena.take(bytes.normed);
  wide_ = arena.take(bytes.wide);
  queries_ = arena.take(bytes.queries);
  inner_ = arena.take(bytes.inner);
  outcome_ = arena.take(bytes.outcome);
  projections_ = arena.take(bytes.projections);
  gathered_ = arena.take(bytes.gathered);
  logits_ = MirroredMemory(arena, bytes.logits);
}

// Columns of all rows of `from` to those of `to` from to_col on; both float32.
void StageModel::copy_columns(TensorView to, std::int64_t to_col, ConstTensorView from,
                              Run columns) {
  const auto bytes = [](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(float);
  };
  ops_.arena().copy_rows({.to = to.data + bytes(to_col),
                          .to_stride = bytes(to.cols),
                          .from = from.data + bytes(columns.begin),
                          .from_stride = bytes(from.cols),
                          .row_bytes = bytes(columns.count),
                          .rows = from.rows});
}

// Rows that lie beside each other on both sides, float32 and equally wide.
void StageModel::copy_rows(TensorView to, std::int64_t to_row, ConstTensorView from, Run rows) {
  const std::size_t row_bytes = static_cast<std::size_t>(from.cols) * sizeof(float);
  const std::size_t bytes = static_cast<std::size_t>(rows.count) * row_bytes;
  ops_.arena().copy_rows({.to = to.data + static_cast<std::size_t>(to_row) * row_bytes,
                          .to_stride = bytes,
                          .from = from.data + static_cast<std::size_t>(rows.begin) * row_bytes,
                          .from_stride = bytes,
                          .row_bytes = bytes,
                          .rows = 1});
}

KvLayer StageModel::kv_layer(int index) const {
  const KvPlaces::Layer& layer = kv_places_.layers[static_cast<std::size_t>(index)];
  return {.data = kv_ + layer.offset,
          .block_bytes = layer.page_stride,
          .block_tokens = size_.block_tokens};
}

// A stage without layers has nothing of any block.
bool StageModel::has_swap(std::span<const BlockSwap> blocks) const {
  if (blocks.empty() || part_.num_layers() == 0) return false;
  require_swaps(blocks, size_.num_blocks, size_.num_swap_blocks);
  return true;
}

void StageModel::save_blocks(std::span<const BlockSwap> blocks) {
  if (has_swap(blocks)) swap_->save(blocks);
}

void StageModel::restore_blocks(std::span<const BlockSwap> blocks) {
  if (has_swap(blocks)) swap_->restore(blocks);
}

// The cache's memory is the system's to give when it is first written to, a huge page at a time,
// and the rows of a step come to the same few pages of a layer together: left to them, every thread
// waits for the first, or clears a page that another has cleared. So threads share out the pages of
// all layers beforehand, whole pages of each.
int StageModel::touch_blocks(int first_new, int block, ThreadPool& pool) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  constexpr std::size_t kPage = 4096;
  if (block < first_new) return first_new;
  const int pieces = kv_places_.num_pieces();
  if (pieces == 0 || !ops_.arena().is_host()) return size_.num_blocks;
  const std::size_t stride = kv_places_.piece(0, 0, 1).bytes;
  const int unit = static_cast<int>((kHugePage + stride - 1) / stride);
  const int end = std::min(size_.num_blocks, (block / unit + 1) * unit);
  const auto touch = [&](int i) {
    const KvPlaces::Piece piece = kv_places_.piece(i, first_new, end);
    std::byte* const begin = kv_ + piece.offset;
    for (std::size_t at = 0; at < piece.bytes; at += kPage) begin[at] = std::byte{0};
  };
  pool.parallel_for(pieces, std::cref(touch));
  return end;
}

void StageModel::embed(TensorView hidden, std::span<const TokenId> tokens,
                       std::span<const SequenceRows> sequences) {
  embed_tokens(hidden, tokens);
  if (config_.embedding_scale != 1.0F) ops_.scale(hidden, config_.embedding_scale);
  if (config_.learned_positions) add_positions(hidden, sequences);
}

void StageModel::add_positions(TensorView hidden, std::span<const SequenceRows> sequences) {
  positions_.assign(static_cast<std::size_t>(hidden.rows), 0);
  for (const SequenceRows& sequence : sequences) {
    for (std::int32_t i = 0; i < sequence.num_rows; ++i) {
      const int row = sequence.first_row + i;
      positions_[static_cast<std::size_t>(row)] = sequence.first_position + i;
    }
  }
  const TensorView rows{outcome_, hidden.rows, hidden.cols, DType::kFloat32};
  ops_.embed(rows, *weights_.positions, positions_);
  ops_.add_scaled(hidden, rows, 1.0F);
}

// Every rank looks up the tokens whose rows it holds; the rows then go to their places.
void StageModel::embed_tokens(TensorView hidden, std::span<const TokenId> tokens) {
  if (exchange_ == nullptr) {
    ops_.embed(hidden, *weights_.embedding, tokens);
    return;
  }
  own_tokens_.clear();
  const IndexRange own = shard_.own.vocab;
  for (const TokenId token : tokens) {
    if (token >= own.begin && token < own.end) own_tokens_.push_back(token - own.begin);
  }
  const TensorView found{.data = exchange_->own().data(),
                         .rows = std::ssize(own_tokens_),
                         .cols = hidden.cols,
                         .dtype = DType::kFloat32};
  if (!own_tokens_.empty()) ops_.embed(found, *weights_.embedding, own_tokens_);
  for (std::size_t rank = 0; rank < given_.size(); ++rank) {
    const IndexRange ids = shard_.ranks[rank].vocab;
    const auto rows = std::count_if(tokens.begin(), tokens.end(), [&](TokenId token) {
      return token >= ids.begin && token < ids.end;
    });
    given_[rank] = tensor_bytes(rows, hidden.cols, DType::kFloat32);
  }
  exchange_->gather(given_);
  for (int rank = 0; rank < exchange_->size(); ++rank) {
    const IndexRange ids = shard_.ranks[static_cast<std::size_t>(rank)].vocab;
    const auto is_its = [&](std::int32_t r) {
      const TokenId token = tokens[static_cast<std::size_t>(r)];
      return token >= ids.begin && token < ids.end;
    };
    const ConstTensorView part{exchange_->part(rank).data(), hidden.rows, hidden.cols,
                               DType::kFloat32};
    const auto num_rows = static_cast<std::int32_t>(hidden.rows);
    std::int32_t next = 0;
    for (std::int32_t r = 0; r < num_rows; ++r) {
      const std::int32_t first = r;
      while (r < num_rows && is_its(r)) ++r;
      if (r == first) continue;
      copy_rows(hidden, first, part, {next, r - first});
      next += r - first;
    }
  }
}

// hidden += x times the whole matrix's transpose + bias, of which this rank has some columns.
void StageModel::add_product(TensorView hidden, const ProductInput& x, const RowParallel& product) {
  const Linear& linear = product.linear;
  if (exchange_ == nullptr) {
    ops_.matmul_add(hidden, x, *linear.weight, linear.bias);
    return;
  }
  const TensorView own{.data = exchange_->own().data(),
                       .rows = linear.weight->num_values() * hidden.rows,
                       .cols = hidden.cols,
                       .dtype = DType::kFloat32};
  ops_.matmul_partial(own, x, *linear.weight);
  if (exchange_->adds()) {
    add_summed(hidden, own, product);
  } else {
    add_gathered(hidden, product);
  }
}

// Everybody's values are added in the order of the whole matrix's tree.
void StageModel::add_gathered(TensorView hidden, const RowParallel& product) {
  const std::vector<int>& num_values = product.sum.num_values;
  for (std::size_t rank = 0; rank < given_.size(); ++rank) {
    given_[rank] = tensor_bytes(num_values[rank] * hidden.rows, hidden.cols, DType::kFloat32);
  }
  exchange_->gather(given_);
  partials_.clear();
  for (int rank = 0; rank < exchange_->size(); ++rank) {
    const auto* values = reinterpret_cast<const float*>(exchange_->part(rank).data());
    for (int v = 0; v < num_values[static_cast<std::size_t>(rank)]; ++v) {
      partials_.push_back(values + v * hidden.rows * hidden.cols);
    }
  }
  ops_.add_partials(hidden, partials_, product.sum.merges, product.linear.bias);
}

// The exchange adds one value of every rank; a rank whose part leaves several adds these first.
void StageModel::add_summed(TensorView hidden, TensorView own, const RowParallel& product) {
  const TensorView sum{own.data, hidden.rows, hidden.cols, DType::kFloat32};
  const std::int64_t count = hidden.rows * hidden.cols;
  const std::span<const std::int32_t> in_turn(in_turn_);
  partials_.clear();
  for (int v = 1; v < product.linear.weight->num_values(); ++v) {
    partials_.push_back(sum.f32() + v * count);
  }
  if (!partials_.empty()) {
    ops_.add_partials(sum, partials_, in_turn.first(partials_.size()), nullptr);
  }
  exchange_->sum({sum.f32(), static_cast<std::size_t>(count)});
  partials_.assign(1, sum.f32());
  ops_.add_partials(hidden, partials_, in_turn.first(1), product.linear.bias);
}

// The same, with norm and factor between the product and the hidden state where the model has them.
// The product is added to zeros then, so that it has the same bits with and without an exchange.
void StageModel::add_outcome(TensorView hidden, const ProductInput& x, const RowParallel& product) {
  if (!changes_outcomes(config_)) {
    add_product(hidden, x, product);
    return;
  }
  const TensorView outcome{outcome_, hidden.rows, hidden.cols, DType::kFloat32};
  ops_.arena().zero(outcome.data, outcome.bytes());
  add_product(outcome, x, product);
  if (config_.post_norms) ops_.norm(outcome, outcome, norm_of(product.post_norm));
  ops_.add_scaled(hidden, outcome, config_.residual_scale);
}

Norm StageModel::norm_of(const NormWeights& weights) const {
  return {.kind = config_.norm,
          .eps = config_.norm_eps,
          .weight = weights.weight,
          .bias = weights.bias};
}

TensorView StageModel::pre_norm(ConstTensorView hidden, const NormWeights& weights) {
  const TensorView normed{normed_, hidden.rows, hidden.cols, ops_.compute_dtype()};
  if (config_.pre_norms) {
    ops_.norm(normed, hidden, norm_of(weights));
  } else {
    ops_.convert(normed, hidden);
  }
  return normed;
}

// The same for a single product, before which hidden does not change.
ProductInput StageModel::input_of_one(ConstTensorView hidden, const NormWeights& weights) {
  if (config_.pre_norms && ops_.norms_inputs()) return {hidden, norm_of(weights)};
  return pre_norm(hidden, weights);
}

// The norms over all heads: every rank gets the others' queries and keys, norms them all, and keeps
// its own.
void StageModel::norm_shared_projections(const LayerWeights& weights, TensorView qkv) {
  const std::int64_t head = attention_.head_dim;
  const std::int64_t own_cols = (attention_.num_heads + attention_.num_kv_heads) * head;
  const TensorView own{exchange_->own().data(), qkv.rows, own_cols, DType::kFloat32};
  copy_columns(own, 0, qkv, {0, own_cols});
  for (std::size_t rank = 0; rank < given_.size(); ++rank) {
    const TensorShard& shard = shard_.ranks[rank];
    given_[rank] = tensor_bytes(qkv.rows, (shard.heads.size() + shard.kv_heads.size()) * head,
                                DType::kFloat32);
  }
  exchange_->gather(given_);

  const TensorView all{projections_, qkv.rows, projection_cols(config_), DType::kFloat32};
  const std::int64_t queries = config_.num_heads * head;
  for (std::size_t rank = 0; rank < shard_.ranks.size(); ++rank) {
    const TensorShard& shard = shard_.ranks[rank];
    const std::int64_t q_cols = shard.heads.size() * head;
    const std::int64_t k_cols = shard.kv_heads.size() * head;
    const ConstTensorView part{exchange_->part(static_cast<int>(rank)).data(), qkv.rows,
                               q_cols + k_cols, DType::kFloat32};
    copy_columns(all, shard.heads.begin * head, part, {0, q_cols});
    copy_columns(all, queries + shard.kv_heads.begin * head, part, {q_cols, k_cols});
  }
  ops_.norm_parts(all, {.begin = 0, .width = queries}, norm_of(weights.q_norm));
  ops_.norm_parts(all, {.begin = queries, .width = all.cols - queries}, norm_of(weights.k_norm));

  const std::int64_t q_cols = attention_.num_heads * head;
  copy_columns(qkv, 0, all, {shard_.own.heads.begin * head, q_cols});
  copy_columns(qkv, q_cols, all, {queries + shard_.own.kv_heads.begin * head, own_cols - q_cols});
}

// Each head with its own weights: an operation a head, since one norms equal parts alike.
void StageModel::norm_each_head(const LayerWeights& weights, TensorView qkv) {
  const std::int64_t dim = attention_.head_dim;
  const auto norm_heads = [&](int first, int count, const NormWeights& of_heads) {
    Norm norm = norm_of(of_heads);
    for (int h = 0; h < count; ++h, norm.weight += dim) {
      ops_.norm_parts(qkv, {.begin = (first + h) * dim, .width = dim}, norm);
    }
  };
  norm_heads(0, attention_.num_heads, weights.q_norm);
  norm_heads(attention_.num_heads, attention_.num_kv_heads, weights.k_norm);
}

void StageModel::norm_queries_and_keys(const LayerWeights& weights, TensorView qkv) {
  if (config_.qk_norm == QkNorm::kNone) return;
  if (config_.qk_norm == QkNorm::kOwnHead) {
    norm_each_head(weights, qkv);
    return;
  }
  if (shares_norms(config_, part_)) {
    norm_shared_projections(weights, qkv);
    return;
  }
  const auto parts = [&](std::int64_t begin, int heads) -> RowParts {
    const std::int64_t cols = std::int64_t{heads} * attention_.head_dim;
    if (config_.qk_norm == QkNorm::kProjection) return {.begin = begin, .width = cols};
    return {.begin = begin, .width = attention_.head_dim, .count = heads};
  };
  const std::int64_t queries = std::int64_t{attention_.num_heads} * attention_.head_dim;
  ops_.norm_parts(qkv, parts(0, attention_.num_heads), norm_of(weights.q_norm));
  ops_.norm_parts(qkv, parts(queries, attention_.num_kv_heads), norm_of(weights.k_norm));
}

// What the heads of a layer see, [rows, heads * head_dim] in the compute type.
TensorView StageModel::attend(int index, const ProductInput& normed, RowsOfGroups rows) {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(index)];
  const LayerTraits traits = config_.layer(part_.begin_layer + index);
  const RowWidths widths = row_widths(config_, shard_.own);
  const DType dtype = ops_.compute_dtype();
  const Rotations& rotations =
      traits.windowed && window_rotations_ ? *window_rotations_ : rotations_;
  AttentionShape shape = attention_;
  shape.window = traits.windowed ? config_.window : 0;
  shape.rotary_dim = traits.rope ? rotations.rotary_dim() : 0;
  shape.sinks = w.sinks;

  const std::int64_t num_rows = normed.view.rows;
  const TensorView qkv{wide_, num_rows, widths.qkv, DType::kFloat32};
  const TensorView queries{queries_, num_rows, widths.heads, dtype};
  const TensorView attended{inner_, num_rows, widths.heads, dtype};
  const KvLayer kv = kv_layer(index);
  const auto group = static_cast<std::size_t>(size_.kv.of(traits));
  const std::span<const SequenceRows> sequences = rows[group];
  ops_.matmul(qkv, normed, *w.qkv.weight, w.qkv.bias);
  norm_queries_and_keys(w, qkv);
  ops_.rope_and_store_kv(queries, qkv, rotations.table(), shape, kv, sequences);
  ops_.attention(attended, queries, shape, kv, sequences);
  return attended;
}

// What goes into the MLP's last product, [rows, intermediate].
ProductInput StageModel::run_mlp(const LayerWeights& weights, const ProductInput& normed) {
  const RowWidths widths = row_widths(config_, shard_.own);
  const std::int64_t num_rows = normed.view.rows;
  const TensorView gate_up{wide_, num_rows, widths.gate_up, DType::kFloat32};
  const TensorView activated{inner_, num_rows, shard_.own.intermediate.size(),
                             ops_.compute_dtype()};
  return ops_.matmul_activate(activated, normed,
                              {.w = *weights.gate_up.weight,
                               .bias = weights.gate_up.bias,
                               .activation = config_.activation,
                               .room = gate_up,
                               .reader = weights.down.weight.get()});
}

void StageModel::run_layer(int index, TensorView hidden, RowsOfGroups rows) {
  const LayerWeights& w = weights_.layers[static_cast<std::size_t>(index)];
  const auto add_attended = [&](ConstTensorView attended) {
    add_outcome(hidden, attended, {w.output, shard_.attention_sum, w.attention_post_norm});
  };
  const auto add_mlp_of = [&](const ProductInput& normed) {
    add_outcome(hidden, run_mlp(w, normed), {w.down, shard_.mlp_sum, w.mlp_post_norm});
  };
  if (!config_.parallel_residual) {
    add_attended(attend(index, input_of_one(hidden, w.attention_norm), rows));
    add_mlp_of(input_of_one(hidden, w.mlp_norm));
    return;
  }
  // Side by side, both read the layer's input, so the MLP's norm is taken before anything is added.
  // Added is first attention, then MLP.
  TensorView normed = pre_norm(hidden, w.attention_norm);
  const TensorView attended = attend(index, normed, rows);
  if (!config_.shared_pre_norm) normed = pre_norm(hidden, w.mlp_norm);
  add_attended(attended);
  add_mlp_of(normed);
}

void StageModel::forward(TensorView hidden, std::span<const TokenId> tokens, RowsOfGroups rows) {
  const std::span<const SequenceRows> sequences = rows[0];  // where pages do not matter
  if (part_.embedding) embed(hidden, tokens, sequences);
  if (part_.num_layers() == 0) return;
  rotations_.fill(sequences);
  if (window_rotations_) window_rotations_->fill(sequences);
  for (int i = 0; i < part_.num_layers(); ++i) run_layer(i, hidden, rows);
}

IndexRange StageModel::own_rows(int num_rows, int tensor_rank) const {
  return dealt_rows(num_rows, tensor_rank, part_.tensor_size);
}

// values [own, vocab] = the logits of rows `own` of normed: every rank computes its ids for all
// rows and takes the other ids of its own rows from the others.
void StageModel::multiply_by_head(TensorView values, ConstTensorView normed, IndexRange own) {
  const Matrix* head = weights_.head(part_);
  if (exchange_ == nullptr) {
    ops_.matmul(values, normed, *head, nullptr);
    return;
  }
  const TensorView part{.data = exchange_->own().data(),
                        .rows = normed.rows,
                        .cols = shard_.own.vocab.size(),
                        .dtype = DType::kFloat32};
  if (head != nullptr) ops_.matmul(part, normed, *head, nullptr);
  for (std::size_t rank = 0; rank < given_.size(); ++rank) {
    given_[rank] = tensor_bytes(normed.rows, shard_.ranks[rank].vocab.size(), DType::kFloat32);
  }
  exchange_->gather(given_);
  for (int rank = 0; rank < exchange_->size(); ++rank) {
    const IndexRange ids = shard_.ranks[static_cast<std::size_t>(rank)].vocab;
    const std::size_t row_bytes = static_cast<std::size_t>(ids.size()) * sizeof(float);
    const ConstTensorView source{
        exchange_->part(rank).data() + static_cast<std::size_t>(own.begin) * row_bytes, own.size(),
        ids.size(), DType::kFloat32};
    copy_columns(values, ids.begin, source, {0, ids.size()});
  }
}

// Rows of the step that lie beside each other go together.
void StageModel::gather(TensorView gathered, ConstTensorView hidden,
                        std::span<const std::int32_t> rows) {
  const auto count = static_cast<std::int32_t>(rows.size());
  for (std::int32_t first = 0, end = 0; first < count; first = end) {
    const std::int32_t row = rows[static_cast<std::size_t>(first)];
    while (end < count && rows[static_cast<std::size_t>(end)] == row + end - first) ++end;
    copy_rows(gathered, first, hidden, {row, end - first});
  }
}

ConstTensorView StageModel::normed_for_head(ConstTensorView hidden,
                                            std::span<const std::int32_t> rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const TensorView gathered{gathered_, count, hidden.cols, DType::kFloat32};
  gather(gathered, hidden, rows);
  const TensorView normed{normed_, count, hidden.cols, ops_.compute_dtype()};
  ops_.norm(normed, gathered, norm_of(weights_.final_norm));
  return normed;
}

std::span<const BestLogit> StageModel::best_logits(ConstTensorView hidden,
                                                   std::span<const std::int32_t> rows) {
  const ConstTensorView normed = normed_for_head(hidden, rows);
  const std::span<BestLogit> best = std::span(best_).first(rows.size());
  const Matrix* head = weights_.head(part_);
  if (head == nullptr) {
    std::fill(best.begin(), best.end(), BestLogit{.value = -INFINITY, .id = -1});
    return best;
  }
  const TensorView room{.data = exchange_ == nullptr ? logits_.device() : exchange_->own().data(),
                        .rows = normed.rows,
                        .cols = head->n(),
                        .dtype = DType::kFloat32};
  ops_.best_logits(best, normed, *head, logit_change_, room);
  for (BestLogit& each : best) {
    if (each.id >= 0) each.id += shard_.own.vocab.begin;
  }
  return best;
}

StageModel::Logits StageModel::logits(ConstTensorView hidden, std::span<const std::int32_t> rows,
                                      std::span<const float> temperatures) {
  const ConstTensorView normed = normed_for_head(hidden, rows);
  const IndexRange own = own_rows(static_cast<int>(rows.size()), part_.tensor_rank);
  const auto num_own = static_cast<std::size_t>(own.size());
  const TensorView values{logits_.device(), own.size(), config_.vocab_size, DType::kFloat32};
  multiply_by_head(values, normed, own);
  change_logits(ops_, values, logit_change_);
  Logits logits{.values = {logits_.host(), values.rows, values.cols, values.dtype},
                .statistics = std::span(statistics_).first(num_own),
                .leaders = {}};
  ops_.row_statistics(std::span(statistics_).first(num_own), values);
  if (!temperatures.empty()) {
    const auto wanted = temperatures.subspan(static_cast<std::size_t>(own.begin), num_own);
    if (std::any_of(wanted.begin(), wanted.end(), [](float t) { return t > 0.0F; })) {
      logits.leaders = ops_.leading_logits(values, wanted);
    }
  }
  if (logits.leaders.empty()) bring_logits({0, own.size()});
  return logits;
}

void StageModel::bring_logits(IndexRange rows) {
  const std::size_t row_bytes = tensor_bytes(1, config_.vocab_size, DType::kFloat32);
  logits_.to_host(static_cast<std::size_t>(rows.size()) * row_bytes,
                  static_cast<std::size_t>(rows.begin) * row_bytes);
}

}  // namespace headrace
