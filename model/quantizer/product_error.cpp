#include "model/quantizer/product_error.h"

#include <cmath>
#include <vector>

namespace headrace {
namespace {

std::vector<float> product(Ops& ops, const Matrix& matrix, ConstTensorView inputs) {
  std::vector<float> out(static_cast<std::size_t>(inputs.rows * matrix.n()));
  ops.matmul({.data = reinterpret_cast<std::byte*>(out.data()),
              .rows = inputs.rows,
              .cols = matrix.n(),
              .dtype = DType::kFloat32},
             inputs, matrix, nullptr);
  return out;
}

}  // namespace

ProductError error_of(const float* exact, const float* actual, std::size_t count) {
  double squares = 0.0;
  double actual_squares = 0.0;
  double products = 0.0;
  double differences = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto e = static_cast<double>(exact[i]);
    const auto a = static_cast<double>(actual[i]);
    squares += e * e;
    actual_squares += a * a;
    products += e * a;
    differences += (e - a) * (e - a);
  }
  ProductError error;
  error.mean_squared = count == 0 ? 0.0 : differences / static_cast<double>(count);
  if (squares > 0.0) error.relative = differences / squares;
  if (squares > 0.0 && actual_squares > 0.0) {
    error.cosine = products / std::sqrt(squares * actual_squares);
  }
  return error;
}

ProductError product_error(Ops& ops, const Matrix& exact, const Matrix& actual,
                           ConstTensorView inputs) {
  const std::vector<float> expected = product(ops, exact, inputs);
  return error_of(expected.data(), product(ops, actual, inputs).data(), expected.size());
}

}  // namespace headrace
