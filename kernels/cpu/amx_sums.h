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

  /// Whether so many panels have all their columns.
  bool whole(int panels) const { return (first_panel + panels) * kPanelColumns <= gemm->n; }
  /// Whether sums of whole panels go out as they are.
  bool plain(int panels) const {
    return gemm->bias == nullptr && gemm->epilogue == Epilogue::kStore && whole(panels);
  }
  /// Some of its rows.
  AmxOutput part(int begin, int count) const {
    AmxOutput part = *this;
    part.first_row += begin;
    part.rows = count;
    return part;
  }
  /// Asks for its lines early: stores to lines that are not in the L1 cache hold up the loads of
  /// tiles behind them. 200 rows x 576 x 960 took 330 us instead of 260 without, one core.
  void fetch(int panels) const {
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < panels; ++v) __builtin_prefetch(at(r, v), 1, 3);
    }
  }
  float* at(int row, int panel, int value = 0) const {
    return gemm->out + value * gemm->value_stride + (first_row + row) * gemm->out_stride +
           (first_panel + panel) * kPanelColumns - gemm->first_column;
  }
};

// Rows: at most so many of a block; NV: panels. A slice is [Rows][kStride].
template <int Rows, int NV>
class AmxSums {
  using L = Avx512Lanes;

 public:
  static constexpr std::int64_t kStride = NV * kPanelColumns;

  /// Adds the `merges` slices that came before this one, the last one first.
  void end_slice(const AmxOutput& out, const float* slice, int merges, bool last) {
    switch (merges) {
      case 0:
        return end<0>(out, slice, merges, last);
      case 1:
        return end<1>(out, slice, merges, last);
      case 2:
        return end<2>(out, slice, merges, last);
      default:
        return end<kAnyMerges>(out, slice, merges, last);
    }
  }

  void clear() { depth_ = 0; }

 private:
  static constexpr int kAnyMerges = -1;

  template <int Merges>
  void end(const AmxOutput& out, const float* slice, int merges, bool last) {
    const int first = depth_ - merges;
    depth_ = first + 1;
    if (!last || first > 0) {
      float* const kept = waiting_[first];
      add<Merges>(out.rows, slice, first, merges,
                  [&](int m, int v, L::V sum) { L::store(kept + at(m, v), sum); });
      if (last) put_values(out);
      return;
    }
    const GemmArgs& g = *out.gemm;
    float* const to = out.at(0, 0);
    if (out.plain(NV)) {
      add<Merges>(out.rows, slice, first, merges, [&](int m, int v, L::V sum) {
        L::store(to + m * g.out_stride + v * kPanelColumns, sum);
      });
    } else if (g.bias == nullptr && out.whole(NV)) {
      add<Merges>(out.rows, slice, first, merges, [&](int m, int v, L::V sum) {
        float* const own = to + m * g.out_stride + v * kPanelColumns;
        L::store(own, L::add(L::load(own), sum));
      });
    } else {
      add<Merges>(out.rows, slice, first, merges,
                  [&](int m, int v, L::V sum) { put(out, m, v, 0, sum); });
    }
  }

  // keep(row, panel, sum) of the slice and those from `first` on.
  template <int Merges, class Keep>
  [[gnu::always_inline]] void add(int rows, const float* slice, int first, int merges,
                                  const Keep& keep) const {
    for (int m = 0; m < rows; ++m) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        L::V sum = L::load(slice + at(m, v));
        if constexpr (Merges == kAnyMerges) {
          for (int i = merges - 1; i >= 0; --i) {
            sum = L::add(L::load(waiting_[first + i] + at(m, v)), sum);
          }
        } else {
#pragma GCC unroll 4
          for (int i = Merges - 1; i >= 0; --i) {
            sum = L::add(L::load(waiting_[first + i] + at(m, v)), sum);
          }
        }
        keep(m, v, sum);
      }
    }
  }

  static constexpr std::int64_t at(int row, int panel) {
    return row * kStride + panel * kPanelColumns;
  }

  // Of a part of a tree several slices are left.
  void put_values(const AmxOutput& out) const {
    for (int value = 0; value < depth_; ++value) {
      for (int m = 0; m < out.rows; ++m) {
        for (int v = 0; v < NV; ++v) {
          put(out, m, v, value, L::load(waiting_[value] + at(m, v)));
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
  alignas(64) float waiting_[kMaxTreeDepth + 1][Rows * kStride];
};

}  // namespace
}  // namespace headrace
