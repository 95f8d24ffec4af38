// How fast the operators are on this machine, beside what bounds them: `headrace bench --kernels`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "kernels/thread_pool.h"
#include "model/config.h"

namespace headrace {

/// What was measured of one operator at one size.
struct KernelRate {
  std::string part;    // "products"
  std::string type;    // "bfloat16", "float32" or "int8": of the weights
  std::string kernel;  // "mlp down 1536 x 576"
  int rows = 0;
  double seconds = 0.0;
  double gflops = 0.0;         // of multiply-adds that the operator is for; 0 where it has none
  double gigabytes = 0.0;      // moved at least, a second
  double bound_percent = 0.0;  // of the time that the machine's peaks allow; 0 where not known
  std::optional<double> slower_than_one_chain_percent;  // of trees
};

/// Of one core, GFLOP/s, and of all threads together, GB/s.
struct MachinePeaks {
  double float32 = 0.0;
  double bfloat16 = 0.0;
  double int8 = 0.0;
  double read_gigabytes = 0.0;
};

MachinePeaks measure_peaks(ThreadPool& pool);

struct KernelBenchSettings {
  std::string part = "all";  // or products, trees, attention, rows
  std::string type = "all";  // or bfloat16, float32, int8
  std::string isa = "auto";
  int threads = 1;
};

/// The parts and types that there are, "all" first.
std::vector<std::string> kernel_bench_parts();
std::vector<std::string> kernel_bench_types();

/// A small model, SmolLM2-135M: what is measured where no other is named.
ModelConfig default_bench_model();

/// Measures and tells each result as it comes. Throws std::invalid_argument where this CPU lacks
/// the isa.
void bench_kernels(const ModelConfig& model, const KernelBenchSettings& settings,
                   const MachinePeaks& peaks, ThreadPool& pool,
                   const std::function<void(const KernelRate&)>& tell);

}  // namespace headrace
