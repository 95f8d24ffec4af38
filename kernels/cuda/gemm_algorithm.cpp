#include "kernels/cuda/gemm_algorithm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/compare_rows.h"
#include "kernels/numeric.h"
#include "kernels/random_values.h"

namespace headrace {
namespace {

// Below, at and above the tiles of algorithms.
constexpr std::int64_t kProbedRows[] = {1,  2,   7,   8,   16,  17,  32,  33,
                                        64, 100, 128, 129, 256, 300, 512, 1024};

enum class Outcome : std::uint8_t { kSame, kDifferent, kRefused };

// The library does not have this algorithm for these rows; anything else is a failure.
bool refuses(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

template <class Bits>
void append(std::vector<std::byte>& bytes, Bits bits) {
  const std::size_t end = bytes.size();
  bytes.resize(end + sizeof(bits));
  std::memcpy(bytes.data() + end, &bits, sizeof(bits));
}

// Values from 2^-8 to 2^8 with all bits that the type has: a sum of a few of the same size can be
// exact, and would not show its order.
std::vector<std::byte> telling_row(std::int64_t count, DType dtype) {
  std::vector<std::byte> row;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = mixed_bits(static_cast<std::uint64_t>(i) + 1);
    const float magnitude = std::ldexp(1.0F + static_cast<float>(bits >> 41) * 0x1p-23F,
                                       static_cast<int>(bits & 15) - 8);
    const float value = (bits & 16) != 0 ? -magnitude : magnitude;
    if (dtype == DType::kFloat32) {
      append(row, value);
    } else {
      append(row, dtype == DType::kBFloat16 ? float_to_bf16(value) : float_to_f16(value));
    }
  }
  return row;
}

class Trial {
 public:
  Trial(const GemmProbe& probe, const GemmArgs& shape, DType dtype)
      : probe_(probe), args_(shape), differs_(static_cast<std::size_t>(shape.n)) {
    const auto row_bytes = static_cast<std::size_t>(shape.stride) * dtype_bytes(dtype);
    const auto column_bytes = arena_bytes(static_cast<std::size_t>(shape.n) * sizeof(float));
    const std::size_t inputs = probe.inputs.size() / row_bytes;
    const std::size_t outputs = probe.outputs.size() / column_bytes;
    // Beside the rows: the one that all have to be like, and where they are not.
    constexpr std::size_t kOthers = 2;
    if (inputs < 1 || outputs < 1 + kOthers) {
      throw std::invalid_argument("the workspace is too small for products of " +
                                  std::to_string(shape.n) + " columns");
    }
    most_rows_ = static_cast<std::int64_t>(std::min(inputs, outputs - kOthers));
    most_rows_ = std::min(most_rows_, kMostTriedRows);
    const auto place = [&](std::size_t i) {
      return reinterpret_cast<float*>(probe.outputs.data() + i * column_bytes);
    };
    expected_ = place(0);
    device_differs_ = place(1);
    args_.out = place(kOthers);
    args_.x = probe.inputs.data();
    fill_inputs(telling_row(shape.stride, dtype));
  }

  std::int64_t most_rows() const { return most_rows_; }

  /// As many as are probed, and all that there is room for.
  std::vector<std::int64_t> all_numbers() const {
    std::vector<std::int64_t> numbers;
    for (const std::int64_t rows : kProbedRows) {
      if (rows < most_rows_) numbers.push_back(rows);
    }
    numbers.push_back(most_rows_);
    return numbers;
  }

  /// Whether all rows of products with so many come out alike.
  Outcome run(const cublasLtMatmulAlgo_t& algorithm, std::span<const std::int64_t> numbers) {
    probe_.arena.zero(reinterpret_cast<std::byte*>(device_differs_),
                      differs_.size() * sizeof(float));
    for (const std::int64_t rows : numbers) {
      args_.m = rows;
      const cublasStatus_t status = probe_.plan.run(args_, probe_.queue, algorithm);
      if (refuses(status)) return Outcome::kRefused;
      check_cublas(status, "cublasLtMatmul", __FILE__, __LINE__);
      if (rows == numbers.front()) {
        HR_CUDA(cudaMemcpyAsync(expected_, args_.out, differs_.size() * sizeof(float),
                                cudaMemcpyDeviceToDevice, probe_.queue.stream));
      }
      launch_compare_rows({.rows = args_.out,
                           .expected = expected_,
                           .differs = device_differs_,
                           .num_rows = rows,
                           .cols = args_.n},
                          probe_.queue.stream);
    }
    probe_.arena.download(std::as_writable_bytes(std::span(differs_)),
                          reinterpret_cast<const std::byte*>(device_differs_));
    const bool same = std::all_of(differs_.begin(), differs_.end(), [](float d) { return d == 0; });
    return same ? Outcome::kSame : Outcome::kDifferent;
  }

 private:
  // One row, then as many again until all are there.
  void fill_inputs(const std::vector<std::byte>& row) {
    std::byte* inputs = probe_.inputs.data();
    probe_.arena.upload(inputs, row);
    const std::size_t all = row.size() * static_cast<std::size_t>(most_rows_);
    for (std::size_t done = row.size(); done < all;) {
      const std::size_t count = std::min(done, all - done);
      HR_CUDA(cudaMemcpyAsync(inputs + done, inputs, count, cudaMemcpyDeviceToDevice,
                              probe_.queue.stream));
      done += count;
    }
  }

  const GemmProbe& probe_;
  GemmArgs args_;
  std::int64_t most_rows_ = 0;
  float* expected_ = nullptr;
  float* device_differs_ = nullptr;
  std::vector<float> differs_;
};

// The first algorithm whose rows all come out alike.
std::optional<cublasLtMatmulAlgo_t> first_steady(
    Trial& trial, const std::vector<cublasLtMatmulAlgo_t>& algorithms, std::int64_t rows) {
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    if (trial.run(algorithm, {&rows, 1}) == Outcome::kSame) return algorithm;
  }
  return std::nullopt;
}

}  // namespace

GemmAlgorithm choose_algorithm(const GemmProbe& probe, const GemmArgs& shape, DType dtype,
                               std::uint32_t alignment) {
  const std::vector<cublasLtMatmulAlgo_t> algorithms =
      probe.plan.algorithms(probe.queue, alignment);
  Trial trial(probe, shape, dtype);
  const std::vector<std::int64_t> numbers = trial.all_numbers();
  std::optional<cublasLtMatmulAlgo_t> unsteady;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    const Outcome outcome = trial.run(algorithm, numbers);
    if (outcome == Outcome::kSame) return {algorithm, GemmRows::kSteady, trial.most_rows()};
    if (outcome == Outcome::kDifferent && !unsteady) unsteady = algorithm;
  }
  if (probe.filled_rows == 0 && unsteady) {
    return {*unsteady, GemmRows::kUnsteady, trial.most_rows()};
  }
  const std::int64_t filled = std::min(probe.filled_rows, trial.most_rows());
  for (const std::int64_t rows : {filled, std::int64_t{1}}) {
    if (rows < 1) continue;
    const auto steady = first_steady(trial, algorithms, rows);
    if (steady) return {*steady, GemmRows::kFilled, rows};
  }
  throw std::runtime_error("cuBLASLt refuses each of its algorithms for products of " +
                           std::to_string(shape.n) + " x " + std::to_string(shape.k));
}

}  // namespace headrace
