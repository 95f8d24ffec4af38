// What finished slices of a block of rows and some panels go through: they wait for others in
// memory until the tree adds them, and the last one takes them to the output. See simd_math.h for
// the unnamed namespace.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/lanes_avx512.h"

namespace headrace {
namespace {

// Where a block's sums go: its rows from first_row on, panels from first_panel on.
struct AmxOutput {
  const GemmArgs* gemm;
  std::int64_t first_row;
  int rows;
  std::int64_t first_panel;

  /// Whether sums of whole panels go out as they are.
  bool plain(int panels) const {
    return gemm->bias == nullptr && gemm->epilogue == Epilogue::kStore &&
           (first_panel + panels) * kPanelColumns <= gemm->n;
  }
  float* at(int row, int panel, int value = 0) const {
    return gemm->out + value * gemm->value_stride + (first_row + row) * gemm->out_stride +
           (first_panel + panel) * kPanelColumns - gemm->first_column;
  }
};

// Rows: at most so many of a block; NV: panels.
template <int Rows, int NV>
class AmxSums {
  using L = Avx512Lanes;

 public:
  static constexpr std::int64_t kStride = NV * kPanelColumns;

  /// Where the slice at hand is put: [Rows][kStride].
  float* slice() { return slices_[depth_][0]; }

  /// The slice at hand is complete: adds the `merges` slices before it, the last one first.
  void end_slice(const AmxOutput& out, int merges, bool last) {
    if (last && depth_ == merges) {
      merge(out.rows, merges, [&](int m, int v, L::V sum) { put(out, m, v, 0, sum); });
      return;
    }
    if (merges > 0) {
      float* const first = slices_[depth_ - merges][0];
      merge(out.rows, merges, [&](int m, int v, L::V sum) {
        L::store(first + m * kStride + v * kPanelColumns, sum);
      });
      depth_ -= merges;
    }
    if (last) {
      put_values(out);
    } else {
      ++depth_;
    }
  }

 private:
  template <class Keep>
  void merge(int rows, int merges, const Keep& keep) {
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        const std::int64_t at = m * kStride + v * kPanelColumns;
        L::V sum = L::load(slices_[depth_][0] + at);
        for (int i = 1; i <= merges; ++i) sum = L::add(L::load(slices_[depth_ - i][0] + at), sum);
        keep(m, v, sum);
      }
    }
  }

  // Of a part of a tree several slices are left.
  void put_values(const AmxOutput& out) const {
    for (int value = 0; value <= depth_; ++value) {
      for (int m = 0; m < out.rows; ++m) {
        for (int v = 0; v < NV; ++v) {
          put(out, m, v, value, L::load(slices_[value][m] + v * kPanelColumns));
        }
      }
    }
  }

  static void put(const AmxOutput& output, int row, int panel, int value, L::V sum) {
    const GemmArgs& g = *output.gemm;
    const std::int64_t column = (output.first_panel + panel) * kPanelColumns;
    const std::int64_t left = g.n - column;
    const int n = left < kPanelColumns ? static_cast<int>(left) : kPanelColumns;
    float* const out = output.at(row, panel, value);
    if (g.bias != nullptr) sum = L::add(sum, L::load_first(g.bias + column, n));
    if (g.epilogue == Epilogue::kAddTo) sum = L::add(L::load_first(out, n), sum);
    if (n == kPanelColumns) {
      L::store(out, sum);
    } else {
      L::store_first(out, sum, n);
    }
  }

  int depth_ = 0;
  alignas(64) float slices_[kMaxTreeDepth + 1][Rows][kStride];
};

}  // namespace
}  // namespace headrace
