#include "launch/gpu_bench.h"

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <utility>

#include "kernels/cuda_backend.h"
#include "launch/bench_timing.h"

namespace headrace {
namespace {

// Sizes grow until a call takes this long, which hides what launching costs. (Emulated kernels get
// there at once.)
constexpr double kLongEnough = 0.002;

using MakeOps = std::function<std::unique_ptr<Ops>(DType dtype, bool deterministic)>;

double copied_gigabytes(const MakeOps& make_gpu_ops) {
  constexpr std::size_t kLeast = std::size_t{1} << 20;
  constexpr std::size_t kMost = std::size_t{1} << 30;
  constexpr std::size_t kRowBytes = std::size_t{64} << 10;
  const auto ops = make_gpu_ops(DType::kBFloat16, false);
  DeviceArena& arena = ops->arena();
  double best = 0.0;
  for (std::size_t bytes = kLeast; bytes <= kMost; bytes *= 4) {
    const RowCopy copy{.to = arena.take(bytes),
                       .to_stride = kRowBytes,
                       .from = random_bytes(arena, bytes, DType::kBFloat16),
                       .from_stride = kRowBytes,
                       .row_bytes = kRowBytes,
                       .rows = static_cast<std::int64_t>(bytes / kRowBytes)};
    const double seconds = timing_on(arena, [&] { arena.copy_rows(copy); }).seconds;
    best = 2e-9 * static_cast<double>(bytes) / seconds;
    if (seconds >= kLongEnough) break;
  }
  return best;
}

double product_gflops(const MakeOps& make_gpu_ops, DType dtype) {
  constexpr std::int64_t kMost = 8192;
  const auto ops = make_gpu_ops(dtype, false);
  DeviceArena& arena = ops->arena();
  double best = 0.0;
  for (std::int64_t n = 64; n <= kMost; n *= 2) {
    auto matrix = ops->make_matrix({n, n, ReductionTree::single(static_cast<std::int32_t>(n))});
    const auto count = static_cast<std::size_t>(n);
    matrix->make_rows(0, {.values = {.half_width = 1.0F, .stream = 1}, .stride = count, .rows = n});
    const TensorView x{random_bytes(arena, count * count * dtype_bytes(dtype), dtype), n, n, dtype};
    const TensorView out{arena.take(count * count * sizeof(float)), n, n, DType::kFloat32};
    const double seconds = timing_on(arena, [&] { ops->matmul(out, x, *matrix, nullptr); }).seconds;
    const auto side = static_cast<double>(n);
    best = 2e-9 * side * side * side / seconds;
    if (seconds >= kLongEnough) break;
  }
  return best;
}

}  // namespace

BenchDevice bench_gpu(GemmProfile* profile) {
  const CudaDevices found = cuda_devices();
  if (found.devices.empty()) {
    throw std::invalid_argument("bench: --device cuda: there is no GPU: " + found.why_none);
  }
  const MakeOps make = [profile](DType dtype, bool deterministic) {
    return make_cuda_ops(
        {.compute_dtype = dtype, .deterministic = deterministic, .profile = profile});
  };
  return {.name = found.devices.front().name,
          .make_ops = make,
          .peaks = {.float32 = product_gflops(make, DType::kFloat32),
                    .bfloat16 = product_gflops(make, DType::kBFloat16),
                    .float16 = product_gflops(make, DType::kFloat16),
                    .memory_gigabytes = copied_gigabytes(make)},
          .types = {DType::kBFloat16, DType::kFloat16, DType::kFloat32},
          .rows = {1, 8, 64, 256, 1024, 4096},
          .rows_of_steps = {64, 4096},
          // Several times the largest cache, 60 MB.
          .from_memory = std::size_t{512} << 20};
}

}  // namespace headrace
