#include "kernels/op_checks.h"

#include <stdexcept>
#include <string>

namespace headrace {
namespace {

std::string shape_text(std::int64_t rows, std::int64_t cols, DType dtype) {
  return "[" + std::to_string(rows) + ", " + std::to_string(cols) + "] " +
         std::string(dtype_name(dtype));
}

[[noreturn]] void fail(const std::string& message) {
  throw std::invalid_argument(message);
}

}  // namespace

void require_view(const ConstTensorView& view, const ExpectedView& expected) {
  if (view.rows == expected.rows && view.cols == expected.cols && view.dtype == expected.dtype) {
    return;
  }
  fail(std::string(expected.name) + " is " + shape_text(view.rows, view.cols, view.dtype) +
       ", expected " + shape_text(expected.rows, expected.cols, expected.dtype));
}

void require_matrix(const MatrixSpec& spec, DType compute_dtype) {
  const ReductionTree& tree = spec.tree;
  if (tree.num_slices() < 1 || tree.bounds.size() != tree.merges.size() + 1 ||
      tree.bounds.front() != 0 || tree.bounds.back() != spec.k) {
    fail("reduction tree: bounds have to run from 0 to k = " + std::to_string(spec.k) +
         " with one entry of merges a slice");
  }
  int depth = 0;
  for (int s = 0; s < tree.num_slices(); ++s) {
    const auto i = static_cast<std::size_t>(s);
    if (tree.bounds[i] >= tree.bounds[i + 1]) {
      fail("reduction tree: slice " + std::to_string(s) + " is empty");
    }
    if (compute_dtype == DType::kBFloat16 && tree.bounds[i] % 2 != 0) {
      fail("reduction tree: bound " + std::to_string(tree.bounds[i]) +
           " is odd; bfloat16 products are taken in pairs of k");
    }
    depth += 1 - tree.merges[i];
    if (depth < 1) fail("reduction tree: slice " + std::to_string(s) + " merges too often");
  }
}

void require_whole_sum(const Matrix& matrix) {
  if (matrix.num_values() == 1) return;
  fail("matmul: the matrix is a part of one and leaves " + std::to_string(matrix.num_values()) +
       " values, expected 1");
}

void require_best_logits(std::span<const BestLogit> out, const ConstTensorView& x, const Matrix& w,
                         const TensorView& room) {
  require_whole_sum(w);
  require_view(x, {"best_logits: x", std::ssize(out), w.k(), x.dtype});
  require_view(room, {.name = "best_logits: room", .rows = std::ssize(out), .cols = w.n()});
}

void require_merges(std::size_t num_parts, std::span<const std::int32_t> merges) {
  if (merges.size() != num_parts) {
    fail("add_partials: " + std::to_string(num_parts) + " parts, but merges for " +
         std::to_string(merges.size()));
  }
  int depth = 0;
  for (const std::int32_t count : merges) {
    if (depth >= kMaxTreeDepth) {
      fail("add_partials: more than " + std::to_string(kMaxTreeDepth) +
           " parts wait for each other");
    }
    depth += 1 - count;
    if (depth < 1) fail("add_partials: more merges than parts");
  }
  if (depth != 1) {
    fail("add_partials: " + std::to_string(depth) + " values are left, expected 1");
  }
}

bool Matrix::make_rows(std::int64_t /*first_row*/, const RandomRows& /*rows*/) {
  return false;
}

void Matrix::set_integer_rows(std::int64_t /*first_row*/, const IntegerRows& /*rows*/) {
  throw std::logic_error("set_integer_rows: the matrix is not quantised");
}

void require_rows_fit(const Matrix& matrix, std::int64_t first_row, const IntegerRows& rows) {
  if (first_row >= 0 && rows.rows >= 0 && first_row + rows.rows <= matrix.n()) return;
  fail("set_integer_rows: rows [" + std::to_string(first_row) + ", " +
       std::to_string(first_row + rows.rows) + ") do not fit a matrix of " +
       std::to_string(matrix.n()) + " rows");
}

void require_rows_fit(const Matrix& matrix, std::int64_t first_row, const ConstTensorView& rows) {
  if (rows.cols == matrix.k() && first_row >= 0 && first_row + rows.rows <= matrix.n()) return;
  fail("set_rows: rows [" + std::to_string(first_row) + ", " +
       std::to_string(first_row + rows.rows) + ") of " + std::to_string(rows.cols) +
       " columns do not fit a matrix of " + std::to_string(matrix.n()) + " rows and " +
       std::to_string(matrix.k()) + " columns");
}

void require_ids(std::span<const std::int32_t> ids, std::int64_t n) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= n) {
      fail("embed: id " + std::to_string(id) + " is outside a table of " + std::to_string(n) +
           " rows");
    }
  }
}

void require_attention_shape(const AttentionShape& shape) {
  if (shape.num_kv_heads < 1 || shape.num_heads < 1 || shape.num_heads % shape.num_kv_heads != 0) {
    fail("attention: " + std::to_string(shape.num_heads) + " query heads over " +
         std::to_string(shape.num_kv_heads) + " key heads do not divide");
  }
  if (shape.head_dim < 2 || shape.head_dim % 2 != 0 || shape.head_dim > kMaxHeadDim) {
    fail("attention: head_dim " + std::to_string(shape.head_dim) + " has to be even, from 2 to " +
         std::to_string(kMaxHeadDim));
  }
  if (shape.rotary_dim < 0 || shape.rotary_dim % 2 != 0 || shape.rotary_dim > shape.head_dim) {
    fail("attention: rotary_dim " + std::to_string(shape.rotary_dim) +
         " has to be even and at most head_dim " + std::to_string(shape.head_dim));
  }
  if (shape.window < 0) {
    fail("attention: window " + std::to_string(shape.window) + " is negative");
  }
  if (!(shape.soft_cap >= 0.0F)) {
    fail("attention: soft_cap " + std::to_string(shape.soft_cap) + " is negative");
  }
}

void require_parts(const RowParts& parts, std::int64_t cols) {
  if (parts.begin >= 0 && parts.width >= 1 && parts.count >= 0 &&
      parts.begin + parts.width * parts.count <= cols) {
    return;
  }
  fail("norm_parts: " + std::to_string(parts.count) + " parts of " + std::to_string(parts.width) +
       " columns from column " + std::to_string(parts.begin) + " on do not fit rows of " +
       std::to_string(cols));
}

const ConstTensorView& plain_rows(const ProductInput& x) {
  if (x.norm) fail("matmul: x is still to be normed, expected rows that are");
  if (x.packed_for != nullptr) fail("matmul: x is packed, expected rows that are not");
  return x.view;
}

void require_activated_product(const TensorView& out, const ActivatedProduct& product,
                               DType compute_dtype) {
  require_whole_sum(product.w);
  require_view(product.room,
               {.name = "matmul_activate: room", .rows = out.rows, .cols = product.w.n()});
  require_activation_views(out, product.room, compute_dtype);
}

bool require_activation_views(const TensorView& out, const ConstTensorView& x,
                              DType compute_dtype) {
  require_view(out, {"activate: out", out.rows, out.cols, compute_dtype});
  const bool gated = x.cols == 2 * out.cols && out.cols > 0;
  require_view(x, {.name = "activate: x", .rows = out.rows, .cols = gated ? x.cols : out.cols});
  return gated;
}

}  // namespace headrace
