#include "launch/kernel_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>

#include "kernels/buffer.h"
#include "kernels/peak.h"
#include "partition/reduction_slices.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kRows[] = {1, 4, 16, 64, 256};
constexpr std::int64_t kMostRows = 256;

// Bytes that are read in turn, so that they come from where a model's weights would: no core's own
// cache holds them.
constexpr std::size_t kFromMemory = std::size_t{96} << 20;

// Best time of one call over many short rounds: on a shared machine some of them are undisturbed.
template <class Call>
double best_seconds(Call call) {
  double best = 1e9;
  int calls = 1;
  for (int round = 0; round < 25;) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (seconds < 0.002) {
      calls *= 2;
      continue;
    }
    best = std::min(best, seconds / calls);
    ++round;
  }
  return best;
}

void fill(const Buffer& buffer, DType dtype) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  if (dtype == DType::kFloat32) {
    auto* p = reinterpret_cast<float*>(buffer.data());
    std::generate_n(p, buffer.bytes() / 4, [&] { return normal(generator); });
  } else {
    auto* p = reinterpret_cast<std::uint16_t*>(buffer.data());
    std::generate_n(p, buffer.bytes() / 2,
                    [&] { return static_cast<std::uint16_t>(generator() % 0x100 + 0x3F00); });
  }
}

Buffer filled(std::int64_t count, DType dtype) {
  Buffer buffer(static_cast<std::size_t>(count) * dtype_bytes(dtype));
  fill(buffer, dtype);
  return buffer;
}

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
  Bench(const ModelConfig& model, const KernelBenchSettings& settings, const MachinePeaks& peaks,
        std::unique_ptr<Ops> ops, const std::function<void(const KernelRate&)>& tell)
      : model_(model),
        settings_(settings),
        peaks_(peaks),
        ops_(std::move(ops)),
        dtype_(ops_->compute_dtype()),
        tell_(tell) {}

  void run(Quantization weights, QuantizedInputs inputs = QuantizedInputs::kInt8) {
    weights_ = weights;
    inputs_ = inputs;
    if (wants("products")) products();
    if (weights != Quantization::kNone && inputs == QuantizedInputs::kCompute) return;
    if (wants("attention")) attentions();
    if (weights != Quantization::kNone) return;  // the others do not depend on it
    if (wants("trees")) trees();
    if (wants("rows")) rows();
  }

 private:
  bool wants(std::string_view part) const {
    return settings_.part == "all" || settings_.part == part;
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
    const bool integers = weights_ != Quantization::kNone && inputs_ == QuantizedInputs::kInt8;
    const double core = integers                     ? peaks_.int8
                        : dtype_ == DType::kBFloat16 ? peaks_.bfloat16
                                                     : peaks_.float32;
    return core * settings_.threads;
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

  KernelRate rate_of(const Work& work, double seconds) const {
    KernelRate rate{.part = work.part,
                    .type = type_name(),
                    .kernel = work.kernel,
                    .rows = work.rows,
                    .seconds = seconds,
                    .gflops = 1e-9 * work.flops / seconds,
                    .gigabytes = 1e-9 * work.bytes / seconds,
                    .bound_percent = 0.0,
                    .slower_than_one_chain_percent = std::nullopt};
    const bool knows_peak = work.flops == 0.0 || peak() > 0.0;
    if (!knows_peak || peaks_.read_gigabytes == 0.0) return rate;
    const double compute_s = work.flops == 0.0 ? 0.0 : 1e-9 * work.flops / peak();
    const double memory_s = work.from_memory ? 1e-9 * work.bytes / peaks_.read_gigabytes : 0.0;
    const double bound_s = std::max(compute_s, memory_s);
    rate.bound_percent = 100.0 * bound_s / seconds;
    return rate;
  }

  std::unique_ptr<Matrix> matrix_of(const Product& product, const Buffer& source,
                                    ReductionTree tree) {
    auto matrix = ops_->make_matrix({product.n, product.k, std::move(tree), weights_, inputs_});
    matrix->set_rows(0, {source.data(), product.n, product.k, dtype_});
    return matrix;
  }

  double time_product(const std::vector<std::unique_ptr<Matrix>>& matrices, std::int64_t m) {
    const Matrix& first = *matrices.front();
    std::size_t next = 0;
    return best_seconds([&] {
      ops_->matmul({out_->data(), m, first.n(), DType::kFloat32},
                   {x_->data(), m, first.k(), dtype_}, *matrices[next], nullptr);
      next = (next + 1) % matrices.size();
    });
  }

  void make_inputs(const Product& product) {
    x_.emplace(filled(kMostRows * product.k, dtype_));
    out_.emplace(static_cast<std::size_t>(kMostRows * product.n) * sizeof(float));
  }

  // Over enough copies of the weights that they come from memory, as in a model.
  void products() {
    for (const Product& product : products_of(model_)) {
      const Buffer source = filled(product.n * product.k, dtype_);
      const std::size_t copies = std::clamp<std::size_t>(kFromMemory / source.bytes(), 1, 40);
      std::vector<std::unique_ptr<Matrix>> matrices;
      for (std::size_t i = 0; i < copies; ++i) {
        matrices.push_back(matrix_of(product, source, product.tree));
      }
      make_inputs(product);
      for (const std::int64_t m : kRows) {
        tell_(rate_of(product_work("products", product, *matrices.front(), m),
                      time_product(matrices, m)));
      }
    }
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
      const Buffer source = filled(product.n * product.k, dtype_);
      std::vector<std::unique_ptr<Matrix>> chain;
      std::vector<std::unique_ptr<Matrix>> sliced;
      chain.push_back(
          matrix_of(product, source, ReductionTree::single(static_cast<std::int32_t>(product.k))));
      sliced.push_back(matrix_of(product, source, product.tree));
      make_inputs(product);
      for (const std::int64_t m : {1, 16, 64}) {
        double chain_s = 1e9;
        double sliced_s = 1e9;
        for (int turn = 0; turn < 6; ++turn) {
          chain_s = std::min(chain_s, time_product(chain, m));
          sliced_s = std::min(sliced_s, time_product(sliced, m));
        }
        Work work = product_work("trees", product, *sliced.front(), m);
        work.from_memory = false;  // one matrix stays in the cache
        KernelRate rate = rate_of(work, sliced_s);
        rate.slower_than_one_chain_percent = 100.0 * (sliced_s / chain_s - 1.0);
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
      attention(batch);
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

  void attention(const Batch& batch) {
    constexpr int kBlockTokens = 32;
    const AttentionShape shape = attention_shape();
    const int blocks_each = (batch.context + kBlockTokens - 1) / kBlockTokens;
    const std::size_t block_bytes = ops_->kv_block_bytes(shape, kBlockTokens);
    const auto num_blocks =
        static_cast<std::size_t>(blocks_each) * static_cast<std::size_t>(batch.sequences);
    // As many layers as it takes that keys and values come from memory.
    const std::size_t layer_bytes = num_blocks * block_bytes;
    const std::size_t layers = std::clamp<std::size_t>(kFromMemory / layer_bytes, 1, 64);
    const Buffer cache(layers * layer_bytes);
    fill(cache, dtype_);
    std::vector<std::int32_t> blocks(num_blocks);
    std::iota(blocks.begin(), blocks.end(), 0);
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(1));
    std::vector<SequenceRows> sequences;
    sequences.reserve(static_cast<std::size_t>(batch.sequences));
    for (int s = 0; s < batch.sequences; ++s) {
      sequences.push_back({s * batch.rows_each, batch.rows_each, batch.context - batch.rows_each,
                           blocks.data() + s * blocks_each, 0});
    }
    const std::int64_t rows = std::int64_t{batch.sequences} * batch.rows_each;
    const std::int64_t cols = std::int64_t{shape.num_heads} * shape.head_dim;
    ops_->reserve(static_cast<int>(rows), batch.context, shape);
    const Buffer q = filled(rows * cols, dtype_);
    const Buffer out(q.bytes());
    std::size_t layer = 0;
    const double seconds = best_seconds([&] {
      const KvLayer kv{cache.data() + layer * layer_bytes, block_bytes, kBlockTokens};
      ops_->attention({out.data(), rows, cols, dtype_}, {q.data(), rows, cols, dtype_}, shape, kv,
                      sequences);
      layer = (layer + 1) % layers;
    });
    // Keys that the rows of a sequence see, added up.
    const double keys = (batch.context - batch.rows_each) * static_cast<double>(batch.rows_each) +
                        0.5 * batch.rows_each * (batch.rows_each + 1.0);
    tell_(rate_of({.part = "attention",
                   .kernel = fmt::format("attention, {} x {} of {} keys", batch.sequences,
                                         batch.rows_each, batch.context),
                   .rows = static_cast<int>(rows),
                   .flops = 4.0 * static_cast<double>(cols) * keys * batch.sequences,
                   .bytes = static_cast<double>(layer_bytes + q.bytes() + out.bytes())},
                  seconds));
  }

  // Operators that go over rows once: what they read bounds them, and it comes from memory here.
  void rows() {
    constexpr std::int64_t kM = 64;
    const std::int64_t hidden = model_.hidden_size;
    const std::int64_t inner = model_.intermediate_size;
    const std::int64_t vocab = model_.vocab_size;
    const std::int64_t up = model_.gated_mlp ? 2 * inner : inner;
    const Buffer in =
        filled(std::max(kM * vocab, static_cast<std::int64_t>(kFromMemory / sizeof(float))),
               DType::kFloat32);
    const Buffer out(static_cast<std::size_t>(kM * std::max(hidden, inner)) * sizeof(float));
    const auto* weight = reinterpret_cast<const float*>(in.data());
    const auto tell = [&](const std::string& name, std::int64_t cols, const auto& call) {
      const std::size_t bytes = static_cast<std::size_t>(kM * cols) * sizeof(float);
      const std::size_t pieces = in.bytes() / bytes;
      std::size_t next = 0;
      const double seconds = best_seconds([&] {
        call(TensorView{in.data() + next * bytes, kM, cols, DType::kFloat32});
        next = (next + 1) % pieces;
      });
      tell_(rate_of({.part = "rows",
                     .kernel = fmt::format("{} {}", name, cols),
                     .rows = kM,
                     .flops = 0.0,
                     .bytes = static_cast<double>(bytes)},
                    seconds));
    };
    tell("norm", hidden, [&](TensorView x) {
      ops_->norm({out.data(), kM, hidden, dtype_}, x,
                 {.kind = NormKind::kRms, .eps = 1e-5F, .weight = weight, .bias = nullptr});
    });
    tell("activation", up, [&](TensorView x) {
      ops_->activate({out.data(), kM, inner, dtype_}, x, model_.activation);
    });
    std::vector<RowStatistics> statistics(kM);
    tell("statistics", vocab, [&](TensorView x) { ops_->row_statistics(statistics, x); });
  }

  const ModelConfig& model_;
  const KernelBenchSettings& settings_;
  const MachinePeaks& peaks_;
  std::unique_ptr<Ops> ops_;
  DType dtype_;
  const std::function<void(const KernelRate&)>& tell_;
  Quantization weights_ = Quantization::kNone;
  QuantizedInputs inputs_ = QuantizedInputs::kInt8;
  std::optional<Buffer> x_;
  std::optional<Buffer> out_;
};

}  // namespace

MachinePeaks measure_peaks(ThreadPool& pool) {
  const double fma = measure_fma_peak();
  return {.float32 = fma,
          .bfloat16 = std::max(fma, measure_bf16_dot_peak()),
          .int8 = measure_int8_dot_peak(),
          .read_gigabytes = measure_read_bandwidth(pool)};
}

std::vector<std::string> kernel_bench_parts() {
  return {"all", "products", "trees", "attention", "rows"};
}

std::vector<std::string> kernel_bench_types() {
  return {"all", "bfloat16", "float32", "int8", "int4", "w8a16", "w4a16"};
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
                   const MachinePeaks& peaks, ThreadPool& pool,
                   const std::function<void(const KernelRate&)>& tell) {
  const auto wants = [&](std::string_view type) {
    return settings.type == "all" || settings.type == type;
  };
  const auto bench = [&](DType dtype) {
    return Bench(model, settings, peaks, make_cpu_ops(dtype, pool, settings.isa), tell);
  };
  if (wants("bfloat16")) bench(DType::kBFloat16).run(Quantization::kNone);
  if (wants("float32")) bench(DType::kFloat32).run(Quantization::kNone);
  if (wants("int8")) bench(DType::kBFloat16).run(Quantization::kInt8);
  if (wants("int4")) bench(DType::kBFloat16).run(Quantization::kInt4);
  constexpr QuantizedInputs kKept = QuantizedInputs::kCompute;
  if (wants("w8a16")) bench(DType::kBFloat16).run(Quantization::kInt8, kKept);
  if (wants("w4a16")) bench(DType::kBFloat16).run(Quantization::kInt4, kKept);
}

}  // namespace headrace
