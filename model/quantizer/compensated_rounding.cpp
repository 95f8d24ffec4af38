#include "model/quantizer/compensated_rounding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headrace {
namespace {

// Added to the diagonal, in parts of its mean: inputs that hardly differ must not make errors of
// one column good by huge changes of another.
constexpr double kDamping = 0.01;

// [size, size], row-major.
class Square {
 public:
  explicit Square(std::size_t size) : size_(size), values_(size * size) {}
  std::size_t size() const { return size_; }
  double* row(std::size_t i) { return values_.data() + i * size_; }
  const double* row(std::size_t i) const { return values_.data() + i * size_; }
  std::vector<double> release() { return std::move(values_); }

 private:
  std::size_t size_;
  std::vector<double> values_;
};

double dot(const double* a, const double* b, std::size_t count) {
  // Four chains: the order is fixed, and they do not wait for each other.
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The lower triangle L with L times its transpose the matrix, which is symmetric and, being damped,
// positive definite.
void cholesky(Square& m, ThreadPool& pool) {
  const std::size_t n = m.size();
  for (std::size_t j = 0; j < n; ++j) {
    double* pivot = m.row(j);
    pivot[j] = std::sqrt(pivot[j] - dot(pivot, pivot, j));
    constexpr std::size_t kRows = 64;
    pool.parallel_for(static_cast<int>((n - j - 1 + kRows - 1) / kRows), [&](int task) {
      const std::size_t first = j + 1 + static_cast<std::size_t>(task) * kRows;
      for (std::size_t i = first; i < std::min(first + kRows, n); ++i) {
        m.row(i)[j] = (m.row(i)[j] - dot(m.row(i), pivot, j)) / pivot[j];
      }
    });
  }
}

// The inverse of a lower triangle, transposed: row i holds column i of the inverse.
Square inverse_transposed(const Square& lower, ThreadPool& pool) {
  const std::size_t n = lower.size();
  Square inverse(n);
  pool.parallel_for(static_cast<int>(n), [&](int task) {
    const auto c = static_cast<std::size_t>(task);
    double* column = inverse.row(c);
    column[c] = 1.0 / lower.row(c)[c];
    for (std::size_t i = c + 1; i < n; ++i) {
      column[i] = -dot(lower.row(i) + c, column + c, i - c) / lower.row(i)[i];
    }
  });
  return inverse;
}

}  // namespace

// With the inverse of XᵀX factored as UᵀU, U upper, row i of U over its diagonal is what an error
// of column i is made good by. U is the inverse of R in XᵀX = R Rᵀ, R upper; reversing rows and
// columns turns that into the usual triangle.
CompensatedRounding::Block CompensatedRounding::make_block(const GramBlock& gram,
                                                           ThreadPool& pool) {
  const auto size = static_cast<std::size_t>(gram.size);
  Block block{.begin = gram.begin, .order = std::vector<std::int32_t>(size), .factor = {}};
  std::iota(block.order.begin(), block.order.end(), 0);
  std::stable_sort(block.order.begin(), block.order.end(),
                   [&](std::int32_t a, std::int32_t b) { return gram.at(a, a) > gram.at(b, b); });
  double mean = 0.0;
  for (std::int32_t i = 0; i < gram.size; ++i) mean += gram.at(i, i) / static_cast<double>(size);
  const double damping = mean > 0.0 ? kDamping * mean : 1.0;
  Square reversed(size);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      reversed.row(i)[j] = gram.at(block.order[size - 1 - i], block.order[size - 1 - j]);
    }
    reversed.row(i)[i] += damping;
  }
  cholesky(reversed, pool);
  const Square inverse = inverse_transposed(reversed, pool);
  Square upper(size);
  for (std::size_t i = 0; i < size; ++i) {
    // U[i][j] = inverse of the reversed triangle at [size - 1 - i][size - 1 - j], j >= i.
    for (std::size_t j = i; j < size; ++j) {
      upper.row(i)[j] =
          inverse.row(size - 1 - j)[size - 1 - i] / inverse.row(size - 1 - i)[size - 1 - i];
    }
  }
  block.factor = upper.release();
  return block;
}

CompensatedRounding::CompensatedRounding(const std::vector<GramBlock>& blocks,
                                         std::span<const std::int32_t> bounds, Quantization type,
                                         ThreadPool& pool)
    : type_(type), units_(integer_units(bounds, type)) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    unit_of_.insert(unit_of_.end(), static_cast<std::size_t>(units_[u].end - units_[u].begin),
                    static_cast<std::int32_t>(u));
  }
  for (const GramBlock& gram : blocks) {
    double largest = 0.0;
    for (std::int32_t i = 0; i < gram.size; ++i) largest = std::max(largest, gram.at(i, i));
    for (std::int32_t i = 0; i < gram.size; ++i) {
      // Of no column nothing at all counts.
      constexpr double kLeast = 1e-6;
      importance_.push_back(
          static_cast<float>(largest > 0.0 ? std::max(gram.at(i, i) / largest, kLeast) : 1.0));
    }
    blocks_.push_back(make_block(gram, pool));
  }
}

void CompensatedRounding::settle_scales(const float* values, IntegerRow& out) const {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const std::span<const float> unit(values + units_[u].begin, values + units_[u].end);
    if (type_ == Quantization::kInt4) {
      const Int4Scale scale = int4_scale(unit, {importance_.data() + units_[u].begin, unit.size()});
      out.scales[u] = scale.scale;
      out.zeros[u] = scale.zero;
    } else {
      out.scales[u] = int8_scale(unit).scale;
    }
  }
}

void CompensatedRounding::round_block(const Block& block, const float* values,
                                      IntegerRow& out) const {
  const std::size_t size = block.order.size();
  std::vector<double> left(size);  // of the values, in the block's order
  for (std::size_t i = 0; i < size; ++i) {
    left[i] = static_cast<double>(values[block.begin + block.order[i]]);
  }
  for (std::size_t i = 0; i < size; ++i) {
    const auto place = block.begin + block.order[i];
    const auto column = static_cast<std::size_t>(place);
    const auto unit = static_cast<std::size_t>(unit_of_[column]);
    const auto scale = static_cast<double>(out.scales[unit]);
    if (!(scale > 0.0)) {
      out.integers[column] = 0;
      continue;
    }
    const bool int4 = type_ == Quantization::kInt4;
    const double zero = int4 ? out.zeros[unit] / 16.0 : 0.0;
    const double integer = std::clamp(std::nearbyint(left[i] / scale + zero), int4 ? 0.0 : -127.0,
                                      int4 ? 15.0 : 127.0);
    out.integers[column] = static_cast<std::int8_t>(integer);
    const double error = left[i] - (integer - zero) * scale;
    const double* costs = block.factor.data() + i * size;
    for (std::size_t j = i + 1; j < size; ++j) left[j] -= error * costs[j];
  }
}

void CompensatedRounding::quantize(const float* values, IntegerRow& out) const {
  settle_scales(values, out);
  for (const Block& block : blocks_) round_block(block, values, out);
}

}  // namespace headrace
