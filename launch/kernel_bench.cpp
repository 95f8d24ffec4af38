#include "launch/kernel_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>

#include "kernels/buffer.h"
#include "launch/bench_timing.h"
#include "launch/swap_bench.h"
#include "partition/reduction_slices.h"

namespace headrace {
namespace {

/// A matrix of the model, and how its product is summed.
struct Product {
  std::string name;
  std::int64_t n = 0;
  std::int64_t k = 0;
  ReductionTree tree;
};

ReductionTree tree_of(const ReductionSlices& slices) {
  return {.bounds = slices.bounds, .merges = slices.merges};
}

std::vector<Product> products_of(const ModelConfig& model) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t heads = std::int64_t{model.num_heads} * model.head_dim;
  const std::int64_t kv = std::int64_t{model.num_kv_heads} * model.head_dim;
  const std::int64_t inner = model.intermediate_size;
  const auto whole = [](std::int64_t k) {
    return ReductionTree::single(static_cast<std::int32_t>(k));
  };
  return {{"qkv", heads + 2 * kv, hidden, whole(hidden)},
          {"attention output", hidden, heads,
           tree_of(attention_output_slices(model.num_heads, model.num_kv_heads, model.head_dim))},
          {"mlp up", model.gated_mlp ? 2 * inner : inner, hidden, whole(hidden)},
          {"mlp down", hidden, inner, tree_of(mlp_down_slices(model.intermediate_size))},
          {"head", model.vocab_size, hidden, whole(hidden)}};
}

class Bench {
 public:
  Bench(const ModelConfig& model, const KernelBenchSettings& settings, const BenchDevice& device,
        DType dtype, const std::function<void(const KernelRate&)>& tell)
      : model_(model), settings_(settings), device_(device), dtype_(dtype), tell_(tell) {}

  void run(Quantization weights, QuantizedInputs inputs = QuantizedInputs::kInt8) {
    weights_ = weights;
    inputs_ = inputs;
    if (wants("products")) products();
    if (weights != Quantization::kNone && inputs == QuantizedInputs::kCompute) return;
    if (wants("attention")) attentions();
    if (weights != Quantization::kNone) return;  // the others do not depend on it
    if (wants("trees")) trees();
    if (wants("swap")) swap_blocks();
    if (!wants("rows")) return;
    for (const std::int64_t count : limited(device_.rows_of_steps)) rows(count);
  }

 private:
  bool wants(std::string_view part) const {
    return settings_.part == "all" || settings_.part == part;
  }

  void swap_blocks() {
    restart();
    for (const KernelRate& rate : swap_rates(model_, attention_shape(), *ops_)) tell_(rate);
  }

  // Operators anew: what the arena held is free again.
  void restart(bool deterministic = false) {
    ops_.reset();
    ops_ = device_.make_ops(dtype_, deterministic);
  }

  std::byte* taken(std::size_t bytes, DType dtype) {
    return random_bytes(ops_->arena(), bytes, dtype);
  }

  template <class Call>
  Timing timing_of(const Call& call) {
    return timing_on(ops_->arena(), call);
  }

  std::string type_name() const {
    const bool integers = inputs_ == QuantizedInputs::kInt8;
    switch (weights_) {
      case Quantization::kInt8:
        return integers ? "int8" : "w8a16";
      case Quantization::kInt4:
        return integers ? "int4" : "w4a16";
      case Quantization::kNone:
        break;
    }
    return std::string(dtype_name(dtype_));
  }

  double peak() const {
    const MachinePeaks& peaks = device_.peaks;
    if (weights_ != Quantization::kNone && inputs_ == QuantizedInputs::kInt8) return peaks.int8;
    if (dtype_ == DType::kFloat32) return peaks.float32;
    return dtype_ == DType::kBFloat16 ? peaks.bfloat16 : peaks.float16;
  }

  /// flops and bytes: of one call.
  struct Work {
    std::string part;
    std::string kernel;
    int rows = 0;
    double flops = 0.0;
    double bytes = 0.0;
    bool from_memory = true;  // so that its bandwidth bounds it
  };

  KernelRate rate_of(const Work& work, const Timing& timing) const {
    const double seconds = timing.seconds;
    KernelRate rate{.part = work.part,
                    .type = type_name(),
                    .kernel = work.kernel,
                    .rows = work.rows,
                    .seconds = seconds,
                    .host_seconds = std::nullopt,
                    .gflops = 1e-9 * work.flops / seconds,
                    .gigabytes = 1e-9 * work.bytes / seconds,
                    .bound_percent = 0.0,
                    .slower_than_one_chain_percent = std::nullopt};
    if (!ops_->arena().is_host()) rate.host_seconds = timing.host_seconds;
    const double memory_peak = device_.peaks.memory_gigabytes;
    const bool knows_peak = work.flops == 0.0 || peak() > 0.0;
    if (!knows_peak || memory_peak == 0.0) return rate;
    const double compute_s = work.flops == 0.0 ? 0.0 : 1e-9 * work.flops / peak();
    const double memory_s = work.from_memory ? 1e-9 * work.bytes / memory_peak : 0.0;
    const double bound_s = std::max(compute_s, memory_s);
    rate.bound_percent = 100.0 * bound_s / seconds;
    return rate;
  }

  // Filled where the device draws weights itself, else with the same numbers over and over.
  std::unique_ptr<Matrix> matrix_of(const Product& product, ReductionTree tree) {
    auto matrix = ops_->make_matrix({product.n, product.k, std::move(tree), weights_, inputs_});
    const RandomRows drawn{.values = {.half_width = 1.0F, .stream = 1},
                           .stride = static_cast<std::uint64_t>(product.k),
                           .rows = product.n};
    if (matrix->make_rows(0, drawn)) return matrix;
    const auto cols = static_cast<std::size_t>(product.k);
    const auto rows = static_cast<std::size_t>(product.n);
    const Buffer source = random_buffer(rows * cols * dtype_bytes(dtype_), dtype_);
    matrix->set_rows(0, {source.data(), product.n, product.k, dtype_});
    return matrix;
  }

  // Inputs and outputs of products of up to so many rows.
  struct Operands {
    std::byte* x = nullptr;
    std::byte* out = nullptr;
  };
  Operands operands_of(const Product& product, std::int64_t rows) {
    const auto count = static_cast<std::size_t>(rows);
    return {taken(count * static_cast<std::size_t>(product.k) * dtype_bytes(dtype_), dtype_),
            ops_->arena().take(count * static_cast<std::size_t>(product.n) * sizeof(float))};
  }

  Timing time_product(const std::vector<std::unique_ptr<Matrix>>& matrices,
                      const Operands& operands, std::int64_t m) {
    const Matrix& first = *matrices.front();
    const TensorView out{operands.out, m, first.n(), DType::kFloat32};
    const TensorView x{operands.x, m, first.k(), dtype_};
    std::size_t next = 0;
    return timing_of([&] {
      ops_->matmul(out, x, *matrices[next], nullptr);
      next = (next + 1) % matrices.size();
    });
  }

  std::vector<std::int64_t> limited(std::vector<std::int64_t> rows) const {
    std::erase_if(rows, [&](std::int64_t count) { return count > settings_.max_rows; });
    return rows;
  }

  // Over enough copies of the weights that they come from memory, as in a model.
  void products() {
    const std::vector<std::int64_t> counts = limited(device_.rows);
    for (const Product& product : products_of(model_)) {
      restart();
      const auto bytes = static_cast<std::size_t>(product.n * product.k) * dtype_bytes(dtype_);
      const std::size_t copies = std::clamp<std::size_t>(device_.from_memory / bytes, 1, 40);
      std::vector<std::unique_ptr<Matrix>> matrices;
      for (std::size_t i = 0; i < copies; ++i) {
        matrices.push_back(matrix_of(product, product.tree));
      }
      const Operands operands = operands_of(product, counts.back());
      for (const std::int64_t m : counts) {
        tell_(rate_of(product_work("products", product, *matrices.front(), m),
                      time_product(matrices, operands, m)));
      }
      for (const std::int64_t m : counts) {
        if (product.name == "mlp up") activated_product(product, matrices, operands, m);
        if (product.name == "head") best_logits(product, matrices, operands, m);
      }
    }
  }

  // A product with what is made of it: call(room for it, x, matrix).
  template <class Call>
  void used_product(const Product& product, const std::vector<std::unique_ptr<Matrix>>& matrices,
                    const Operands& operands, std::int64_t m, const Call& call) {
    ops_->reserve(static_cast<int>(m), kBlockTokens, attention_shape());
    const TensorView room{operands.out, m, product.n, DType::kFloat32};
    const TensorView x{operands.x, m, product.k, dtype_};
    std::size_t next = 0;
    const Timing timing = timing_of([&] {
      call(room, x, *matrices[next]);
      next = (next + 1) % matrices.size();
    });
    tell_(rate_of(product_work("products", product, *matrices.front(), m), timing));
  }

  // What the MLP makes of its first product.
  void activated_product(Product product, const std::vector<std::unique_ptr<Matrix>>& matrices,
                         const Operands& operands, std::int64_t m) {
    const std::int64_t cols = model_.gated_mlp ? product.n / 2 : product.n;
    const auto elements = static_cast<std::size_t>(m * cols);
    const TensorView out{ops_->arena().take(elements * dtype_bytes(dtype_)), m, cols, dtype_};
    product.name += ", activated";
    used_product(product, matrices, operands, m,
                 [&](const TensorView& room, const TensorView& x, const Matrix& w) {
                   ops_->matmul_activate(
                       out, x,
                       {.w = w, .bias = nullptr, .activation = model_.activation, .room = room});
                 });
  }

  // What greedy sampling makes of the head.
  void best_logits(Product product, const std::vector<std::unique_ptr<Matrix>>& matrices,
                   const Operands& operands, std::int64_t m) {
    std::vector<BestLogit> best(static_cast<std::size_t>(m));
    product.name += ", best logit";
    used_product(product, matrices, operands, m,
                 [&](const TensorView& room, const TensorView& x, const Matrix& w) {
                   ops_->best_logits(best, x, w, {}, room);
                 });
  }

  Work product_work(const std::string& part, const Product& product, const Matrix& matrix,
                    std::int64_t m) const {
    const auto rows = static_cast<double>(m);
    const auto n = static_cast<double>(product.n);
    const auto k = static_cast<double>(product.k);
    return {.part = part,
            .kernel = fmt::format("{} {} x {}", product.name, product.k, product.n),
            .rows = static_cast<int>(m),
            .flops = 2.0 * rows * n * k,
            .bytes = static_cast<double>(matrix.bytes()) +
                     rows * (k * static_cast<double>(dtype_bytes(dtype_)) + n * sizeof(float))};
  }

  // What summing in slices costs beside one chain over the whole of K: the two take turns, and the
  // best of each counts.
  void trees() {
    for (const Product& product : products_of(model_)) {
      if (product.tree.num_slices() == 1) continue;
      restart(true);
      std::vector<std::unique_ptr<Matrix>> chain;
      std::vector<std::unique_ptr<Matrix>> sliced;
      chain.push_back(
          matrix_of(product, ReductionTree::single(static_cast<std::int32_t>(product.k))));
      sliced.push_back(matrix_of(product, product.tree));
      const Operands operands = operands_of(product, 64);
      for (const std::int64_t m : limited({1, 16, 64})) {
        Timing best;
        double chain_s = 1e9;
        for (int turn = 0; turn < 6; ++turn) {
          chain_s = std::min(chain_s, time_product(chain, operands, m).seconds);
          const Timing timing = time_product(sliced, operands, m);
          if (timing.seconds < best.seconds) best = timing;
        }
        Work work = product_work("trees", product, *sliced.front(), m);
        work.from_memory = false;  // one matrix stays in the cache
        KernelRate rate = rate_of(work, best);
        rate.slower_than_one_chain_percent = 100.0 * (best.seconds / chain_s - 1.0);
        tell_(rate);
      }
    }
  }

  struct Batch {
    int sequences = 0;
    int context = 0;
    int rows_each = 0;
  };

  void attentions() {
    for (const Batch& batch :
         {Batch{64, 128, 1}, Batch{64, 1024, 1}, Batch{16, 4096, 1}, Batch{1, 512, 512}}) {
      if (batch.sequences * batch.rows_each <= settings_.max_rows) attention(batch);
    }
  }

  AttentionShape attention_shape() const {
    return {.num_heads = model_.num_heads,
            .num_kv_heads = model_.num_kv_heads,
            .head_dim = model_.head_dim,
            .rotary_dim = 0,
            .scale = 0.125F,
            .window = 0,
            .soft_cap = 0.0F,
            .kv_type = weights_ != Quantization::kNone ? KvType::kInt8 : KvType::kCompute};
  }

  // A cache of as many layers as it takes that keys and values come from memory, its blocks
  // shuffled.
  struct Cache {
    std::byte* data = nullptr;
    std::size_t layer_bytes = 0;
    std::size_t layers = 0;
    std::size_t block_bytes = 0;
    std::vector<std::int32_t> blocks;
    std::vector<SequenceRows> sequences;

    KvLayer layer(std::size_t index) const {
      return {data + index % layers * layer_bytes, block_bytes, kBlockTokens};
    }
  };

  Cache cache_of(const Batch& batch, const AttentionShape& shape) {
    const int blocks_each = (batch.context + kBlockTokens - 1) / kBlockTokens;
    Cache cache;
    cache.block_bytes = ops_->kv_block_bytes(shape, kBlockTokens);
    cache.blocks.resize(static_cast<std::size_t>(blocks_each) *
                        static_cast<std::size_t>(batch.sequences));
    cache.layer_bytes = cache.blocks.size() * cache.block_bytes;
    cache.layers = std::clamp<std::size_t>(device_.from_memory / cache.layer_bytes, 1, 64);
    cache.data = taken(cache.layers * cache.layer_bytes, dtype_);
    std::iota(cache.blocks.begin(), cache.blocks.end(), 0);
    std::shuffle(cache.blocks.begin(), cache.blocks.end(), std::mt19937(1));
    for (int s = 0; s < batch.sequences; ++s) {
      cache.sequences.push_back({s * batch.rows_each, batch.rows_each,
                                 batch.context - batch.rows_each,
                                 cache.blocks.data() + s * blocks_each, 0});
    }
    ops_->reserve(batch.sequences * batch.rows_each, batch.context, shape);
    return cache;
  }

  void attention(const Batch& batch) {
    restart();
    const AttentionShape shape = attention_shape();
    const Cache cache = cache_of(batch, shape);
    const std::int64_t rows = std::int64_t{batch.sequences} * batch.rows_each;
    const std::int64_t cols = std::int64_t{shape.num_heads} * shape.head_dim;
    const std::size_t bytes = static_cast<std::size_t>(rows * cols) * dtype_bytes(dtype_);
    const TensorView q{taken(bytes, dtype_), rows, cols, dtype_};
    const TensorView out{ops_->arena().take(bytes), rows, cols, dtype_};
    std::size_t layer = 0;
    const Timing timing =
        timing_of([&] { ops_->attention(out, q, shape, cache.layer(layer++), cache.sequences); });
    // Keys that the rows of a sequence see, added up.
    const double keys = (batch.context - batch.rows_each) * static_cast<double>(batch.rows_each) +
                        0.5 * batch.rows_each * (batch.rows_each + 1.0);
    tell_(rate_of({.part = "attention",
                   .kernel = fmt::format("attention, {} x {} of {} keys", batch.sequences,
                                         batch.rows_each, batch.context),
                   .rows = static_cast<int>(rows),
                   .flops = 4.0 * static_cast<double>(cols) * keys * batch.sequences,
                   .bytes = static_cast<double>(cache.layer_bytes + 2 * bytes)},
                  timing));
  }

  // What an operator reads, float32, and what it writes.
  struct Input {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
  };
  struct Output {
    std::int64_t cols = 0;
    DType dtype = DType::kFloat32;
    bool read_too = false;
  };

  // One operator that goes over rows once: call(input, output) for one part of large ones after
  // another. What it reads comes from memory; what it writes goes there on a GPU, while a CPU's
  // cache keeps it.
  template <class Call>
  void over_rows(const std::string& name, const Input& input, const Output& output,
                 const Call& call) {
    const bool keeps_output = ops_->arena().is_host();
    const auto rows = static_cast<std::size_t>(input.rows);
    const std::size_t in_bytes = rows * static_cast<std::size_t>(input.cols) * sizeof(float);
    const std::size_t out_bytes =
        rows * static_cast<std::size_t>(output.cols) * dtype_bytes(output.dtype);
    const std::size_t pieces = std::max<std::size_t>(1, device_.from_memory / in_bytes);
    std::byte* in = taken(pieces * in_bytes, DType::kFloat32);
    std::byte* out = taken((keeps_output ? 1 : pieces) * out_bytes, output.dtype);
    std::size_t next = 0;
    const Timing timing = timing_of([&] {
      call(TensorView{in + next * in_bytes, input.rows, input.cols, DType::kFloat32},
           TensorView{out + (keeps_output ? 0 : next) * out_bytes, input.rows, output.cols,
                      output.dtype});
      next = (next + 1) % pieces;
    });
    const std::size_t written = keeps_output ? 0 : (output.read_too ? 2 : 1) * out_bytes;
    tell_(rate_of({.part = "rows",
                   .kernel = fmt::format("{} {}", name, input.cols),
                   .rows = static_cast<int>(input.rows),
                   .flops = 0.0,
                   .bytes = static_cast<double>(in_bytes + written)},
                  timing));
  }

  void rows(std::int64_t rows) {
    const std::int64_t hidden = model_.hidden_size;
    const std::int64_t inner = model_.intermediate_size;
    restart();
    const auto* weight = reinterpret_cast<const float*>(
        taken(static_cast<std::size_t>(hidden) * sizeof(float), DType::kFloat32));
    over_rows("norm", {rows, hidden}, {hidden, dtype_}, [&](TensorView x, TensorView out) {
      ops_->norm(out, x, {.kind = NormKind::kRms, .eps = 1e-5F, .weight = weight, .bias = nullptr});
    });
    restart();
    over_rows("convert", {rows, hidden}, {hidden, dtype_},
              [&](TensorView x, TensorView out) { ops_->convert(out, x); });
    restart();
    over_rows("add scaled", {rows, hidden}, {.cols = hidden, .read_too = true},
              [&](TensorView x, TensorView out) { ops_->add_scaled(out, x, 1e-3F); });
    restart();
    const std::int32_t no_merge = 0;
    over_rows("add partials", {rows, hidden}, {.cols = hidden, .read_too = true},
              [&](TensorView x, TensorView out) {
                const float* part = x.f32();
                ops_->add_partials(out, {&part, 1}, {&no_merge, 1}, nullptr);
              });
    restart();
    over_rows("activation", {rows, model_.gated_mlp ? 2 * inner : inner}, {inner, dtype_},
              [&](TensorView x, TensorView out) { ops_->activate(out, x, model_.activation); });
    embedding(rows);
    rope(rows);
    statistics(rows);
  }

  // Rows of a table that is larger than most caches, others with every call.
  void embedding(std::int64_t rows) {
    restart();
    constexpr std::size_t kSteps = 64;
    const std::int64_t vocab = model_.vocab_size;
    const std::int64_t hidden = model_.hidden_size;
    const auto count = static_cast<std::size_t>(rows);
    const auto table = matrix_of({"embed", vocab, hidden, {}},
                                 ReductionTree::single(static_cast<std::int32_t>(hidden)));
    ops_->reserve(static_cast<int>(rows), kBlockTokens, attention_shape());
    std::vector<std::int32_t> ids(kSteps * count);
    std::mt19937 generator(1);
    for (std::int32_t& id : ids) {
      id = static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(vocab));
    }
    const auto elements = count * static_cast<std::size_t>(hidden);
    const TensorView out{ops_->arena().take(elements * sizeof(float)), rows, hidden,
                         DType::kFloat32};
    std::size_t step = 0;
    const Timing timing = timing_of(
        [&] { ops_->embed(out, *table, std::span(ids).subspan(step++ % kSteps * count, count)); });
    const std::size_t written = ops_->arena().is_host() ? 0 : elements * sizeof(float);
    tell_(rate_of({.part = "rows",
                   .kernel = fmt::format("embed {}", hidden),
                   .rows = static_cast<int>(rows),
                   .flops = 0.0,
                   .bytes = static_cast<double>(elements * dtype_bytes(dtype_) + written)},
                  timing));
  }

  // Rotations of a step of decoded rows, and what they write into the cache.
  void rope(std::int64_t rows) {
    restart();
    AttentionShape shape = attention_shape();
    shape.rotary_dim = model_.head_dim / 2 * 2;
    const Cache cache = cache_of({static_cast<int>(rows), 128, 1}, shape);
    const std::int64_t q_cols = std::int64_t{shape.num_heads} * shape.head_dim;
    const std::int64_t cols = q_cols + std::int64_t{2} * shape.num_kv_heads * shape.head_dim;
    const auto* cos_sin = reinterpret_cast<const float*>(
        taken(static_cast<std::size_t>(rows * shape.rotary_dim) * sizeof(float), DType::kFloat32));
    std::size_t layer = 0;
    // Queries, keys and values are written, as many as are read; the bench's output has the
    // queries.
    over_rows("rope and cache", {rows, cols}, {cols, dtype_}, [&](TensorView qkv, TensorView out) {
      ops_->rope_and_store_kv({out.data, rows, q_cols, dtype_}, qkv, cos_sin, shape,
                              cache.layer(layer++), cache.sequences);
    });
  }

  void statistics(std::int64_t rows) {
    restart();
    // As many as fit the bytes that are read in turn: logits are wide.
    const auto row_bytes = static_cast<std::size_t>(model_.vocab_size) * sizeof(float);
    rows = std::min(rows, static_cast<std::int64_t>(device_.from_memory / row_bytes));
    ops_->reserve(static_cast<int>(rows), kBlockTokens, attention_shape());
    std::vector<RowStatistics> statistics(static_cast<std::size_t>(rows));
    over_rows("statistics", {rows, model_.vocab_size}, {},
              [&](TensorView x, TensorView /*out*/) { ops_->row_statistics(statistics, x); });
    if (ops_->arena().is_host()) return;  // rows are drawn from as they are
    const std::vector<float> temperatures(statistics.size(), 1.0F);
    over_rows("leading logits", {rows, model_.vocab_size}, {},
              [&](TensorView x, TensorView /*out*/) { ops_->leading_logits(x, temperatures); });
  }

  static constexpr int kBlockTokens = 32;

  const ModelConfig& model_;
  const KernelBenchSettings& settings_;
  const BenchDevice& device_;
  DType dtype_;
  const std::function<void(const KernelRate&)>& tell_;
  std::unique_ptr<Ops> ops_;
  Quantization weights_ = Quantization::kNone;
  QuantizedInputs inputs_ = QuantizedInputs::kInt8;
};

void require_type(const KernelBenchSettings& settings, const BenchDevice& device) {
  if (settings.type == "all") return;
  std::string names = "all";
  for (const DType dtype : device.types) names += ", " + std::string(dtype_name(dtype));
  if (device.has_integers) names += ", int8, int4, w8a16, w4a16";
  if ((", " + names + ",").find(", " + settings.type + ",") == std::string::npos) {
    throw std::invalid_argument(fmt::format(
        "bench: --type {} is not offered on this device, only {}", settings.type, names));
  }
}

}  // namespace

BenchDevice bench_cpu(ThreadPool& pool, const std::string& isa) {
  make_cpu_ops(DType::kFloat32, pool, isa);  // a mistake in the isa shows now
  return {
      .name = std::string(cpu_features()),
      .make_ops = [&pool, isa](DType dtype,
                               bool /*deterministic*/) { return make_cpu_ops(dtype, pool, isa); },
      .peaks = measure_peaks(pool),
      .types = {DType::kBFloat16, DType::kFloat32},
      .has_integers = true,
      .rows = {1, 4, 16, 64, 256},
      .rows_of_steps = {64},
      .from_memory = std::size_t{96} << 20};
}

std::vector<std::string> kernel_bench_parts() {
  return {"all", "products", "trees", "attention", "rows", "swap"};
}

std::vector<std::string> kernel_bench_types() {
  return {"all", "bfloat16", "float32", "float16", "int8", "int4", "w8a16", "w4a16"};
}

ModelConfig default_bench_model() {
  ModelConfig model;
  model.architecture = "SmolLM2-135M";
  model.num_layers = 30;
  model.hidden_size = 576;
  model.num_heads = 9;
  model.num_kv_heads = 3;
  model.head_dim = 64;
  model.intermediate_size = 1536;
  model.vocab_size = 49152;
  return model;
}

void bench_kernels(const ModelConfig& model, const KernelBenchSettings& settings,
                   const BenchDevice& device, const std::function<void(const KernelRate&)>& tell) {
  require_type(settings, device);
  const auto wants = [&](std::string_view type) {
    return settings.type == "all" || settings.type == type;
  };
  const auto bench = [&](DType dtype) { return Bench(model, settings, device, dtype, tell); };
  for (const DType dtype : device.types) {
    if (wants(dtype_name(dtype))) bench(dtype).run(Quantization::kNone);
  }
  if (!device.has_integers) return;
  if (wants("int8")) bench(DType::kBFloat16).run(Quantization::kInt8);
  if (wants("int4")) bench(DType::kBFloat16).run(Quantization::kInt4);
  constexpr QuantizedInputs kKept = QuantizedInputs::kCompute;
  if (wants("w8a16")) bench(DType::kBFloat16).run(Quantization::kInt8, kKept);
  if (wants("w4a16")) bench(DType::kBFloat16).run(Quantization::kInt4, kKept);
}

}  // namespace headrace
