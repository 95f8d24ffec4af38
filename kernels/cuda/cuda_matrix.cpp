#include "kernels/cuda/cuda_matrix.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cuda/elementwise.h"
#include "kernels/numeric.h"
#include "kernels/op_checks.h"
#include "kernels/read_element.h"

namespace headrace {
namespace {

std::size_t matrix_bytes(std::int64_t n, std::int64_t k, DType dtype) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(k) * dtype_bytes(dtype);
}

// Elements [first, first + count) of a view, in the compute type.
void write_rounded(const TensorView& out, const ConstTensorView& from, std::int64_t first) {
  const std::int64_t count = out.cols;
  if (from.dtype == out.dtype) {
    const std::size_t size = dtype_bytes(out.dtype);
    std::memcpy(out.data, from.data + static_cast<std::size_t>(first) * size, out.bytes());
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = read_element(from, first + i);
    if (out.dtype == DType::kFloat32) {
      out.f32()[i] = value;
    } else {
      out.u16()[i] = out.dtype == DType::kBFloat16 ? float_to_bf16(value) : float_to_f16(value);
    }
  }
}

}  // namespace

CudaMatrix::CudaMatrix(std::int64_t n, ReductionTree stored, DType dtype, CudaArena& arena)
    : n_(n),
      tree_(std::move(stored)),
      dtype_(dtype),
      arena_(arena),
      weights_(arena.take(matrix_bytes(n, tree_.k(), dtype))) {}

std::size_t CudaMatrix::bytes() const {
  return matrix_bytes(n_, k(), dtype_);
}

void CudaMatrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  const auto size = static_cast<std::int64_t>(dtype_bytes(dtype_));
  const auto elements = [&](std::size_t bytes) { return static_cast<std::int64_t>(bytes) / size; };
  arena_.upload_made(weights_ + matrix_bytes(first_row, k(), dtype_),
                     matrix_bytes(rows.rows, k(), dtype_),
                     [&](std::byte* place, std::size_t begin, std::size_t count) {
                       write_rounded({place, 1, elements(count), dtype_}, rows, elements(begin));
                     });
}

bool CudaMatrix::make_rows(std::int64_t first_row, const RandomRows& rows) {
  require_rows_fit(*this, first_row, {nullptr, rows.rows, k(), dtype_});
  launch_make_rows({.out = weights_ + matrix_bytes(first_row, k(), dtype_),
                    .rows = rows,
                    .cols = k(),
                    .out_dtype = dtype_},
                   arena_.stream());
  return true;
}

ReductionTree without_slices(const ReductionTree& tree) {
  std::vector<std::int32_t> begins;  // of the sums that wait
  for (int s = 0; s < tree.num_slices(); ++s) {
    begins.push_back(tree.bounds[static_cast<std::size_t>(s)]);
    for (int merge = 0; merge < tree.merges[static_cast<std::size_t>(s)]; ++merge) {
      begins.pop_back();
    }
  }
  ReductionTree values{begins, std::vector<std::int32_t>(begins.size(), 0)};
  values.bounds.push_back(tree.k());
  return values;
}

}  // namespace headrace
