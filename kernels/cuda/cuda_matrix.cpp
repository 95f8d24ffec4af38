#include "kernels/cuda/cuda_matrix.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/numeric.h"
#include "kernels/op_checks.h"
#include "kernels/read_element.h"

namespace headrace {
namespace {

std::size_t matrix_bytes(std::int64_t n, std::int64_t k, DType dtype) {
  return static_cast<std::size_t>(n) * static_cast<std::size_t>(k) * dtype_bytes(dtype);
}

std::vector<std::byte> rounded(const ConstTensorView& rows, DType dtype) {
  std::vector<std::byte> bytes(matrix_bytes(rows.rows, rows.cols, dtype));
  if (rows.dtype == dtype) {
    std::memcpy(bytes.data(), rows.data, bytes.size());
    return bytes;
  }
  const TensorView out{bytes.data(), rows.rows, rows.cols, dtype};
  for (std::int64_t i = 0; i < rows.rows * rows.cols; ++i) {
    const float value = read_element(rows, i);
    if (dtype == DType::kFloat32) {
      out.f32()[i] = value;
    } else {
      out.u16()[i] = dtype == DType::kBFloat16 ? float_to_bf16(value) : float_to_f16(value);
    }
  }
  return bytes;
}

}  // namespace

CudaMatrix::CudaMatrix(std::int64_t n, ReductionTree stored, DType dtype, cudaStream_t load_stream)
    : n_(n),
      tree_(std::move(stored)),
      dtype_(dtype),
      load_stream_(load_stream),
      weights_(matrix_bytes(n, tree_.k(), dtype)) {}

void CudaMatrix::set_rows(std::int64_t first_row, ConstTensorView rows) {
  require_rows_fit(*this, first_row, rows);
  const std::vector<std::byte> bytes = rounded(rows, dtype_);
  if (bytes.empty()) return;
  std::byte* target = weights_.data() + matrix_bytes(first_row, k(), dtype_);
  HR_CUDA(
      cudaMemcpyAsync(target, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, load_stream_));
  HR_CUDA(cudaStreamSynchronize(load_stream_));
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
