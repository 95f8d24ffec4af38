// Norms of rows or of parts of rows. Bound by reading them. See simd_math.h for the unnamed
// namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd_format.h"

namespace headrace {
namespace {

// The mean of `cols` values of which `sums` holds interleaved sums.
template <class L>
[[gnu::always_inline]] inline typename L::V mean16(typename L::V sums, std::int64_t cols) {
  return L::div(L::set1(L::sum(sums)), L::set1(static_cast<float>(cols)));
}

template <class L>
typename L::V mean_of(const float* x, std::int64_t cols) {
  auto sums = L::zero();
  for (std::int64_t i = 0; i < cols; i += 16) {
    sums = L::add(sums, L::load_first(x + i, lanes_at(i, cols)));
  }
  return mean16<L>(sums, cols);
}

// 1 / sqrt(mean of squared distances from `mean` + eps).
template <class L>
typename L::V norm_scale(const float* x, std::int64_t cols, typename L::V mean, float eps) {
  auto squares = L::zero();
  for (std::int64_t i = 0; i < cols; i += 16) {
    const int n = lanes_at(i, cols);
    const auto distance = L::sub(L::load_first(x + i, n), mean);
    const auto v = L::select_first(n, distance, L::zero());
    squares = L::fma(v, v, squares);
  }
  const auto variance = mean16<L>(squares, cols);
  return L::div(L::set1(1.0F), L::sqrt(L::add(variance, L::set1(eps))));
}

// Out is the format of the results: F's, or float32.
template <class F, class Out>
void norm_part(const NormArgs& args, std::int64_t first) {
  using L = typename F::Lanes;
  const Norm& norm = args.norm;
  const float* x = args.x + first;
  const std::int64_t cols = args.parts.width;
  const auto mean = norm.kind == NormKind::kLayer ? mean_of<L>(x, cols) : L::zero();
  const auto scale = norm_scale<L>(x, cols, mean, norm.eps);
  for (std::int64_t i = 0; i < cols; i += 16) {
    const int n = lanes_at(i, cols);
    const auto scaled = L::mul(L::sub(L::load_first(x + i, n), mean), scale);
    auto value = L::mul(scaled, L::load_first(norm.weight + i, n));
    if (norm.bias != nullptr) value = L::add(value, L::load_first(norm.bias + i, n));
    Out::store_elements(args.out, first + i, value, n);
  }
}

template <class F>
void norm(const NormArgs& args) {
  for (std::int64_t r = args.row_begin; r < args.row_end; ++r) {
    for (std::int64_t p = 0; p < args.parts.count; ++p) {
      const std::int64_t first = r * args.row_cols + args.parts.begin + p * args.parts.width;
      if (args.float_out) {
        norm_part<F, Float32Format<typename F::Lanes>>(args, first);
      } else {
        norm_part<F, F>(args, first);
      }
    }
  }
}

}  // namespace
}  // namespace headrace
