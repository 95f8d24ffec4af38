// Sums of ranks' parts in the order of their tree (elementwise.h).
#include <stdexcept>
#include <string>

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/elementwise_kernel.h"
#include "kernels/op_checks.h"

namespace headrace {
namespace {

/// Values that wait for a later one. The place of a push is known at run time only, and registers
/// cannot be indexed, so each place asks whether it is meant.
class WaitingSums {
 public:
  HR_DEVICE void push(float value) {
    for (int i = 0; i < kMaxTreeDepth; ++i) values_[i] = i == count_ ? value : values_[i];
    ++count_;
  }
  /// The last two become (earlier + later).
  HR_DEVICE void merge() {
    for (int i = 0; i + 1 < kMaxTreeDepth; ++i) {
      values_[i] = i == count_ - 2 ? values_[i] + values_[i + 1] : values_[i];
    }
    --count_;
  }
  HR_DEVICE float only() const { return values_[0]; }

 private:
  float values_[kMaxTreeDepth] = {};
  int count_ = 0;
};

struct AddPartialsOp {
  float* out;
  const float* base;
  const float* bias;
  std::int64_t cols;
  int num_parts;
  const float* parts[kMaxPartials] = {};
  std::uint8_t merges[kMaxPartials] = {};

  HR_DEVICE float sum_of(std::int64_t index) const {
    WaitingSums sums;
    for (int p = 0; p < num_parts; ++p) {
      sums.push(parts[p][index]);
      for (int merge = 0; merge < merges[p]; ++merge) sums.merge();
    }
    return sums.only();
  }

  template <int kCount>
  HR_DEVICE void apply(std::int64_t row, std::int64_t column) const {
    for (int e = 0; e < kCount; ++e) {
      const std::int64_t index = row * cols + column + e;
      float sum = sum_of(index);
      if (bias != nullptr) sum += bias[column + e];
      out[index] = base != nullptr ? base[index] + sum : sum;
    }
  }
};

}  // namespace

void launch_add_partials(const AddPartialsLaunch& args, Stream stream) {
  if (args.parts.size() > kMaxPartials) {
    throw std::invalid_argument("add_partials: " + std::to_string(args.parts.size()) +
                                " parts, at most " + std::to_string(kMaxPartials) + " on the GPU");
  }
  AddPartialsOp op{.out = args.out,
                   .base = args.base,
                   .bias = args.bias,
                   .cols = args.cols,
                   .num_parts = static_cast<int>(args.parts.size())};
  for (std::size_t p = 0; p < args.parts.size(); ++p) {
    op.parts[p] = args.parts[p];
    op.merges[p] = static_cast<std::uint8_t>(args.merges[p]);
  }
  launch_elementwise(op, {args.rows, args.cols, {args.out}}, stream);
}

}  // namespace headrace
