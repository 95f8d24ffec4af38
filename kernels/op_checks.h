// Shape checks at the doors of the operators: cheap enough to stay on, and they name what is wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/ops.h"

namespace headrace {

struct ExpectedView {
  std::string_view name;  // "matmul: out"
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kFloat32;
};

/// Throws std::invalid_argument naming the view, what it is and what it has to be.
void require_view(const ConstTensorView& view, const ExpectedView& expected);

/// The tree covers [0, k) with ascending bounds, and for bfloat16 cuts only at even positions (a
/// pair of k is one unit).
void require_matrix(const MatrixSpec& spec, DType compute_dtype);

/// Rows a matrix takes: inside [0, n), k columns.
void require_rows_fit(const Matrix& matrix, std::int64_t first_row, const ConstTensorView& rows);

void require_rows_fit(const Matrix& matrix, std::int64_t first_row, const IntegerRows& rows);

/// The matrix's tree leaves one value.
void require_whole_sum(const Matrix& matrix);

/// best_logits(): a whole sum, an entry for each row of x, room for the logits.
void require_best_logits(std::span<const BestLogit> out, const ConstTensorView& x, const Matrix& w,
                         const TensorView& room);

/// The merges make one value of as many parts as there are, and never wait for more than
/// kMaxTreeDepth at a time.
void require_merges(std::size_t num_parts, std::span<const std::int32_t> merges);

void require_ids(std::span<const std::int32_t> ids, std::int64_t n);

/// Most sums of a reduction tree that wait for each other: their accumulators stay in the L1 cache.
inline constexpr int kMaxTreeDepth = 12;

/// Largest head dimension of attention: its accumulators live on the stack of the compute thread.
inline constexpr int kMaxHeadDim = 512;

/// Heads divide into groups, dimensions are even and within kMaxHeadDim, window and soft cap are
/// not negative.
void require_attention_shape(const AttentionShape& shape);

/// Parts inside rows of `cols` columns.
void require_parts(const RowParts& parts, std::int64_t cols);

/// True where the operator is gated: x has twice the columns of out. Throws where it has neither
/// twice nor the same.
bool require_activation_views(const TensorView& out, const ConstTensorView& x, DType compute_dtype);

/// The rows of an input that are in the compute type; throws std::invalid_argument where they are
/// still to be normed, or packed.
const ConstTensorView& plain_rows(const ProductInput& x);

/// matmul_activate(): a whole sum, and views that fit it and activate(); of the input whatever is
/// no matter of these.
void require_activated_product(const TensorView& out, const ActivatedProduct& product,
                               DType compute_dtype);

}  // namespace headrace
