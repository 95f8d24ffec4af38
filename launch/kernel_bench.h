// How fast the operators are on a CPU or a GPU, beside what bounds them: `headrace bench
// --kernels`. What bounds an operator is in its kernel's performance model: the FLOPs that it is
// for and the bytes that it moves at least (kernels/cuda/*.h, `Performance`), at the peaks that
// this very device shows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "kernels/peak.h"
#include "kernels/thread_pool.h"
#include "model/config.h"

namespace headrace {

/// What was measured of one operator at one size.
struct KernelRate {
  std::string part;    // "products"
  std::string type;    // "bfloat16", "float32", "float16" or "int8": of the weights
  std::string kernel;  // "mlp down 1536 x 576"
  int rows = 0;
  double seconds = 0.0;
  std::optional<double> host_seconds;  // of them until the host had queued the work, on a GPU
  double gflops = 0.0;         // of multiply-adds that the operator is for; 0 where it has none
  double gigabytes = 0.0;      // moved at least, a second
  double bound_percent = 0.0;  // of the time that the machine's peaks allow; 0 where not known
  std::optional<double> slower_than_one_chain_percent;  // of trees
};

/// What is measured.
struct BenchDevice {
  std::string name;
  /// Operators with an empty arena. deterministic: as CudaOptions has it.
  std::function<std::unique_ptr<Ops>(DType dtype, bool deterministic)> make_ops;
  MachinePeaks peaks;
  std::vector<DType> types;
  bool has_integers = false;                // and so int8 and int4 weights
  std::vector<std::int64_t> rows;           // of products, ascending
  std::vector<std::int64_t> rows_of_steps;  // of operators that go over rows
  // Bytes that are read in turn, so that they come from where a model's weights would: no cache
  // holds them.
  std::size_t from_memory = 0;
};

/// This machine's CPU. The pool must outlive it. Throws std::invalid_argument where it lacks the
/// isa.
BenchDevice bench_cpu(ThreadPool& pool, const std::string& isa);

struct KernelBenchSettings {
  std::string part = "all";      // or products, trees, attention, rows, swap
  std::string type = "all";      // or bfloat16, float32, float16, int8, int4
  std::int64_t max_rows = 4096;  // larger ones are left out
};

/// The parts and types that there are, "all" first.
std::vector<std::string> kernel_bench_parts();
std::vector<std::string> kernel_bench_types();

/// A small model, SmolLM2-135M: what is measured where no other is named.
ModelConfig default_bench_model();

/// Measures and tells each result as it comes. Throws std::invalid_argument for a type that the
/// device does not have.
void bench_kernels(const ModelConfig& model, const KernelBenchSettings& settings,
                   const BenchDevice& device, const std::function<void(const KernelRate&)>& tell);

}  // namespace headrace
