// Speed of the kernels on this machine beside what bounds them: matrix products beside the measured
// multiply-add peak of one core, attention beside the bytes of cache it reads. Not a test: run it
// by hand on an idle machine, `bench_kernels [isa] [threads]`.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/ops.h"
#include "kernels/thread_pool.h"
#include "partition/reduction_slices.h"
#include "tests/bench/peak.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What one core can do with these types right now.
double measure_peak(DType dtype, Quantization weights) {
  if (weights == Quantization::kInt8) return measure_int8_dot_peak();
  const double fma = measure_fma_peak();
  return dtype == DType::kBFloat16 ? std::max(fma, measure_bf16_dot_peak()) : fma;
}

// Best time of one call over many short rounds: on a shared machine some of them are undisturbed.
template <class Call>
double best_seconds(Call call) {
  double best = 1e9;
  int calls = 1;
  for (int round = 0; round < 25;) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    const double seconds = seconds_since(begin);
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

struct ProductShape {
  std::int64_t k;
  std::int64_t n;
  int slices;
};
constexpr ProductShape kShapes[] = {
    {576, 960, 1}, {576, 576, 9}, {576, 3072, 1}, {1536, 576, 8}, {576, 49152, 1}};
constexpr std::int64_t kRows[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 72, 128, 256, 512};

ReductionTree equal_slices(std::int64_t k, int slices) {
  ReductionTree tree;
  for (int i = 0; i <= slices; ++i)
    tree.bounds.push_back(static_cast<std::int32_t>(k / slices * i));
  tree.merges.assign(static_cast<std::size_t>(slices), 1);  // left to right
  tree.merges.front() = 0;
  return tree;
}

// Products of one shape over enough copies of the weights that they come from memory, as in a
// model.
void bench_product(Ops& ops, Quantization weights, const ProductShape& shape, int threads) {
  const std::size_t weight_bytes =
      static_cast<std::size_t>(shape.k * shape.n) * dtype_bytes(ops.compute_dtype());
  const auto copies = std::clamp<std::size_t>((std::size_t{80} << 20) / weight_bytes, 1, 40);
  const Buffer source(weight_bytes);
  fill(source, ops.compute_dtype());
  std::vector<std::unique_ptr<Matrix>> matrices;
  for (std::size_t i = 0; i < copies; ++i) {
    matrices.push_back(
        ops.make_matrix({shape.n, shape.k, equal_slices(shape.k, shape.slices), weights}));
    matrices.back()->set_rows(0, {source.data(), shape.n, shape.k, ops.compute_dtype()});
  }
  const Buffer x(static_cast<std::size_t>(512 * shape.k) * dtype_bytes(ops.compute_dtype()));
  fill(x, ops.compute_dtype());
  const Buffer out(static_cast<std::size_t>(512 * shape.n) * 4);
  std::vector<double> rates;
  rates.reserve(std::size(kRows));
  double peak = measure_peak(ops.compute_dtype(), weights);
  std::size_t next = 0;
  for (const std::int64_t m : kRows) {
    const double seconds = best_seconds([&] {
      ops.matmul({out.data(), m, shape.n, DType::kFloat32},
                 {x.data(), m, shape.k, ops.compute_dtype()}, *matrices[next], nullptr);
      next = (next + 1) % matrices.size();
    });
    rates.push_back(2e-9 * static_cast<double>(m * shape.n * shape.k) / seconds);
    peak = std::max(peak, measure_peak(ops.compute_dtype(), weights));
  }
  std::printf("(%4ld,%5ld)", static_cast<long>(shape.k), static_cast<long>(shape.n));
  for (const double rate : rates) {
    std::printf(" %4.0f/%3.0f", rate, 100 * rate / (threads * peak));
  }
  std::printf("  of %.0f\n", threads * peak);
}

void bench_products(Ops& ops, Quantization weights, int threads) {
  std::printf("\n%s products%s, GFLOP/s / %% of the peak; columns: rows\n            ",
              std::string(dtype_name(ops.compute_dtype())).c_str(),
              weights == Quantization::kInt8 ? " with int8 weights" : "");
  for (const std::int64_t m : kRows) std::printf(" %8ld", static_cast<long>(m));
  std::printf("\n");
  for (const ProductShape& shape : kShapes) bench_product(ops, weights, shape, threads);
}

// A row-parallel product as models have it: its reduction slices, and its columns.
struct SlicedProduct {
  const char* name;
  std::int64_t n;
  ReductionSlices slices;
};

// What summing in slices costs beside one chain over the whole of K: the two take turns, and the
// best of each counts.
void bench_trees(Ops& ops) {
  const SlicedProduct products[] = {
      {"SmolLM2-135M attention output", 576, attention_output_slices(9, 3, 64)},
      {"SmolLM2-135M MLP down", 576, mlp_down_slices(1536)},
      {"Llama-3.1-8B attention output", 4096, attention_output_slices(32, 8, 128)},
      {"Llama-3.1-8B MLP down", 4096, mlp_down_slices(14336)},
  };
  std::printf("\n%s, time of a product summed in slices beside one chain, %%; rows 1, 16, 64\n",
              std::string(dtype_name(ops.compute_dtype())).c_str());
  for (const SlicedProduct& p : products) {
    const std::int64_t k = p.slices.bounds.back();
    const Buffer source(static_cast<std::size_t>(p.n * k) * dtype_bytes(ops.compute_dtype()));
    fill(source, ops.compute_dtype());
    const std::unique_ptr<Matrix> matrices[2] = {
        ops.make_matrix({p.n, k, ReductionTree::single(static_cast<std::int32_t>(k))}),
        ops.make_matrix({p.n, k, {.bounds = p.slices.bounds, .merges = p.slices.merges}})};
    for (const auto& matrix : matrices) {
      matrix->set_rows(0, {source.data(), p.n, k, ops.compute_dtype()});
    }
    const Buffer x(static_cast<std::size_t>(64 * k) * dtype_bytes(ops.compute_dtype()));
    fill(x, ops.compute_dtype());
    const Buffer out(static_cast<std::size_t>(64 * p.n) * 4);
    std::printf("  %-30s %2d slices:", p.name, static_cast<int>(p.slices.merges.size()));
    for (const std::int64_t m : {1, 16, 64}) {
      double best[2] = {1e9, 1e9};
      for (int turn = 0; turn < 6; ++turn) {
        for (int i = 0; i < 2; ++i) {
          best[i] =
              std::min(best[i], best_seconds([&] {
                         ops.matmul({out.data(), m, p.n, DType::kFloat32},
                                    {x.data(), m, k, ops.compute_dtype()}, *matrices[i], nullptr);
                       }));
        }
      }
      std::printf(" %+5.1f", 100 * (best[1] / best[0] - 1));
    }
    std::printf("\n");
  }
}

void bench_attention(Ops& ops, KvType kv_type, int batch, int context, int rows_each) {
  const AttentionShape shape{.num_heads = 9,
                             .num_kv_heads = 3,
                             .head_dim = 64,
                             .rotary_dim = 64,
                             .scale = 0.125F,
                             .kv_type = kv_type};
  constexpr int kBlockTokens = 32;
  const int blocks_each = (context + kBlockTokens - 1) / kBlockTokens;
  const std::size_t block_bytes = ops.kv_block_bytes(shape, kBlockTokens);
  const Buffer cache(static_cast<std::size_t>(blocks_each) * static_cast<std::size_t>(batch) *
                     block_bytes);
  fill(cache, ops.compute_dtype());
  std::vector<std::int32_t> blocks(static_cast<std::size_t>(blocks_each) *
                                   static_cast<std::size_t>(batch));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(1));
  std::vector<SequenceRows> sequences;
  sequences.reserve(static_cast<std::size_t>(batch));
  for (int s = 0; s < batch; ++s) {
    sequences.push_back(
        {s * rows_each, rows_each, context - rows_each, blocks.data() + s * blocks_each});
  }
  const std::int64_t rows = std::int64_t{batch} * rows_each;
  ops.reserve(static_cast<int>(rows), context, shape);
  const std::size_t bytes = static_cast<std::size_t>(rows) * 576 * dtype_bytes(ops.compute_dtype());
  const Buffer q(bytes);
  const Buffer out(bytes);
  fill(q, ops.compute_dtype());
  const KvLayer kv{cache.data(), block_bytes, kBlockTokens};
  const double seconds = best_seconds([&] {
    ops.attention({out.data(), rows, 576, ops.compute_dtype()},
                  {q.data(), rows, 576, ops.compute_dtype()}, shape, kv, sequences);
  });
  const double keys = (context - rows_each) * static_cast<double>(rows_each) +
                      0.5 * rows_each * (rows_each + 1.0);  // summed over the rows of a sequence
  std::printf(
      "  %s batch %3d context %4d rows %3d: %6.1f ns a key and row, %5.1f GB/s, %5.0f GFLOP/s\n",
      std::string(dtype_name(ops.compute_dtype())).c_str(), batch, context, rows_each,
      1e9 * seconds / (keys * batch), 1e-9 * static_cast<double>(cache.bytes()) / seconds,
      1e-9 * 4 * 576 * keys * batch / seconds);
}

void bench_rows(Ops& ops) {
  constexpr std::int64_t kM = 64;
  const Buffer hidden(kM * 3072 * 4);
  const Buffer logits(kM * 49152 * 4);
  fill(hidden, DType::kFloat32);
  fill(logits, DType::kFloat32);
  const Buffer out(kM * 1536 * 4);
  const auto* weight = reinterpret_cast<const float*>(logits.data());
  const double norm = best_seconds([&] {
    ops.norm({out.data(), kM, 576, ops.compute_dtype()}, {hidden.data(), kM, 576, DType::kFloat32},
             {.eps = 1e-5F, .weight = weight});
  });
  const double silu = best_seconds([&] {
    ops.activate({out.data(), kM, 1536, ops.compute_dtype()},
                 {hidden.data(), kM, 3072, DType::kFloat32}, Activation::kSilu);
  });
  std::vector<RowStatistics> statistics(kM);
  const double facts = best_seconds([&] {
    ops.row_statistics(statistics, {logits.data(), kM, 49152, DType::kFloat32});
  });
  std::printf(
      "  %s 64 rows: norm of 576 %.1f us, silu of 1536 %.1f us, statistics of 49152 %.0f us\n",
      std::string(dtype_name(ops.compute_dtype())).c_str(), 1e6 * norm, 1e6 * silu, 1e6 * facts);
}

void bench_pool(ThreadPool& pool) {
  const int tasks = 4 * pool.num_threads();
  const double seconds = best_seconds([&] { pool.parallel_for(tasks, [](int) {}); });
  std::printf("fork and join of %d empty tasks on %d threads: %.2f us\n", tasks, pool.num_threads(),
              1e6 * seconds);
}

void bench_all_attention(Ops& ops) {
  for (const KvType kv_type : {KvType::kCompute, KvType::kInt8}) {
    std::printf("  %s cache\n", kv_type == KvType::kInt8
                                    ? "int8"
                                    : std::string(dtype_name(ops.compute_dtype())).c_str());
    bench_attention(ops, kv_type, 64, 128, 1);
    bench_attention(ops, kv_type, 64, 1024, 1);
    bench_attention(ops, kv_type, 16, 4096, 1);
    bench_attention(ops, kv_type, 1, 512, 512);
  }
}

int run(const std::vector<std::string>& arguments) {
  const auto argument = [&](std::size_t i, const char* otherwise) {
    return i < arguments.size() ? arguments[i] : std::string(otherwise);
  };
  const std::string isa = argument(0, "auto");
  const int threads = std::stoi(argument(1, "1"));
  const std::string part = argument(2, "all");
  const std::string type = argument(3, "");
  const auto pool = make_thread_pool(threads);
  std::printf("CPU: %s; isa %s, %d threads\n", std::string(cpu_features()).c_str(), isa.c_str(),
              threads);
  bench_pool(*pool);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    if (!type.empty() && type != dtype_name(dtype)) continue;
    const auto ops = make_cpu_ops(dtype, *pool, isa);
    if (part == "all" || part == "products") bench_products(*ops, Quantization::kNone, threads);
    if (part == "all" || part == "int8") bench_products(*ops, Quantization::kInt8, threads);
    if (part == "all" || part == "trees") bench_trees(*ops);
    if (part == "all" || part == "attention") bench_all_attention(*ops);
    if (part == "all" || part == "rows") bench_rows(*ops);
  }
  return 0;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  return headrace::run(std::vector<std::string>(argv + 1, argv + argc));
}
