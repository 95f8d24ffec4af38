#include "kernels/reference/reference_matrix.h"

#include <utility>

#include "kernels/op_checks.h"
#include "kernels/read_element.h"

namespace headrace {

ReferenceMatrix::ReferenceMatrix(std::int64_t n, std::int64_t k, ReductionTree tree,
                                 DType compute_dtype)
    : n_(n), tree_(std::move(tree)), dtype_(compute_dtype) {
  require_tree(tree_, k, compute_dtype);
  weights_.resize(static_cast<std::size_t>(n * k));
}

void ReferenceMatrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  float* out = weights_.data() + first_row * k();
  for (std::int64_t i = 0; i < rows.rows * rows.cols; ++i) {
    const float value = read_element(rows, i);
    out[i] = dtype_ == DType::kBFloat16 ? round_to_bf16(value) : value;
  }
}

}  // namespace headrace
