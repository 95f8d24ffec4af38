#include "kernels/cpu/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "kernels/numeric.h"
#include "kernels/op_checks.h"
#include "kernels/read_element.h"

namespace headrace {
namespace {

std::vector<Segment> make_segments(const ReductionTree& tree, int group, int slice_multiple) {
  std::vector<Segment> segments;
  int depth = 0;
  std::int32_t begin = 0;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    const std::int32_t elements = tree.bounds[s + 1] - tree.bounds[s];
    const std::int32_t padded = (elements + slice_multiple - 1) / slice_multiple * slice_multiple;
    segments.push_back({.begin = begin,
                        .end = begin + padded / group,
                        .merges = tree.merges[s],
                        .first_element = tree.bounds[s],
                        .num_elements = elements});
    begin = segments.back().end;
    if (depth >= kMaxTreeDepth) {
      throw std::invalid_argument("reduction tree: more than " + std::to_string(kMaxTreeDepth) +
                                  " sums wait for each other; a balanced tree needs fewer");
    }
    depth += 1 - tree.merges[s];
  }
  return segments;
}

}  // namespace

PackedMatrix::PackedMatrix(const MatrixSpec& spec, int group, int slice_multiple, ThreadPool& pool)
    : pool_(&pool),
      n_(spec.n),
      k_(spec.k),
      num_values_(spec.tree.num_values()),
      inputs_(spec.inputs),
      segments_(make_segments(spec.tree, group, slice_multiple)),
      steps_(segments_.back().end),
      panels_(static_cast<std::size_t>(num_panels() * steps_ * kPanelColumns) *
              sizeof(std::uint32_t)) {}

std::uint32_t* PackedMatrix::column(std::int64_t i) const {
  return reinterpret_cast<std::uint32_t*>(panels_.data()) +
         i / kPanelColumns * steps_ * kPanelColumns + i % kPanelColumns;
}

// In bfloat16 only the last bound of a tree may be odd: the steps of slices follow each other
// without a gap, and element i is in dword i / group.
ComputeMatrix::ComputeMatrix(const MatrixSpec& spec, DType compute_dtype, ThreadPool& pool)
    : PackedMatrix(spec, elements_per_dword(Quantization::kNone, compute_dtype),
                   elements_per_dword(Quantization::kNone, compute_dtype), pool),
      group_(elements_per_dword(Quantization::kNone, compute_dtype)) {}

void ComputeMatrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  over_rows(rows.rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) set_row(first_row + r, rows, r * k());
  });
}

void ComputeMatrix::set_row(std::int64_t row, const ConstTensorView& rows,
                            std::int64_t first_element) {
  std::uint32_t* out = column(row);
  if (group_ == 1) {
    for (std::int64_t i = 0; i < k(); ++i) {
      out[i * kPanelColumns] = std::bit_cast<std::uint32_t>(read_element(rows, first_element + i));
    }
    return;
  }
  for (std::int64_t i = 0; i < k(); i += 2) {
    const std::uint32_t even = float_to_bf16(read_element(rows, first_element + i));
    const std::uint32_t odd =
        i + 1 < k() ? float_to_bf16(read_element(rows, first_element + i + 1)) : 0;
    out[i / 2 * kPanelColumns] = odd << 16 | even;
  }
}

void ComputeMatrix::copy_row(float* out, std::int64_t i) const {
  const std::uint32_t* source = column(i);
  for (std::int64_t c = 0; c < k(); ++c) {
    const std::uint32_t dword = source[c / group_ * kPanelColumns];
    if (group_ == 1) {
      out[c] = std::bit_cast<float>(dword);
    } else {
      out[c] = std::bit_cast<float>(c % 2 == 0 ? dword << 16 : dword & 0xFFFF0000U);
    }
  }
}

}  // namespace headrace
