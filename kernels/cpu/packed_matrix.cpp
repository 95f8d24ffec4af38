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

std::vector<Segment> make_segments(const ReductionTree& tree, int group) {
  std::vector<Segment> segments;
  int depth = 0;
  for (std::size_t s = 0; s < tree.merges.size(); ++s) {
    // Only the last bound may be odd where two elements share a dword.
    segments.push_back(
        {tree.bounds[s] / group, (tree.bounds[s + 1] + group - 1) / group, tree.merges[s]});
    if (depth >= kMaxTreeDepth) {
      throw std::invalid_argument("reduction tree: more than " + std::to_string(kMaxTreeDepth) +
                                  " sums wait for each other; a balanced tree needs fewer");
    }
    depth += 1 - tree.merges[s];
  }
  return segments;
}

}  // namespace

PackedMatrix::PackedMatrix(std::int64_t n, const ReductionTree& tree, DType compute_dtype)
    : n_(n),
      k_(tree.k()),
      num_values_(tree.num_values()),
      group_(compute_dtype == DType::kBFloat16 ? 2 : 1),
      steps_((k_ + group_ - 1) / group_),
      segments_(make_segments(tree, group_)),
      panels_(static_cast<std::size_t>(num_panels() * steps_ * kPanelColumns) *
              sizeof(std::uint32_t)) {}

std::uint32_t* PackedMatrix::column(std::int64_t i) const {
  return reinterpret_cast<std::uint32_t*>(panels_.data()) +
         i / kPanelColumns * steps_ * kPanelColumns + i % kPanelColumns;
}

void PackedMatrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    std::uint32_t* out = column(first_row + r);
    const std::int64_t row = r * k_;
    if (group_ == 1) {
      for (std::int64_t i = 0; i < k_; ++i) {
        out[i * kPanelColumns] = std::bit_cast<std::uint32_t>(read_element(rows, row + i));
      }
      continue;
    }
    for (std::int64_t i = 0; i < k_; i += 2) {
      const std::uint32_t even = float_to_bf16(read_element(rows, row + i));
      const std::uint32_t odd = i + 1 < k_ ? float_to_bf16(read_element(rows, row + i + 1)) : 0;
      out[i / 2 * kPanelColumns] = odd << 16 | even;
    }
  }
}

void PackedMatrix::copy_row(float* out, std::int64_t i) const {
  const std::uint32_t* source = column(i);
  for (std::int64_t k = 0; k < k_; ++k) {
    const std::uint32_t dword = source[k / group_ * kPanelColumns];
    if (group_ == 1) {
      out[k] = std::bit_cast<float>(dword);
    } else {
      out[k] = std::bit_cast<float>(k % 2 == 0 ? dword << 16 : dword & 0xFFFF0000U);
    }
  }
}

}  // namespace headrace
