// How far the products of a quantised matrix are from those of the plain one, on inputs that a
// calibration kept; the inputs are quantised as they are when the model runs.
#pragma once

#include "kernels/ops.h"

namespace headrace {

struct ProductError {
  double relative = 0.0;  // sum of squared differences, in parts of the sum of squares
  double mean_squared = 0.0;
  double cosine = 1.0;
};

/// Of float32 values as many as there are in both.
ProductError error_of(const float* exact, const float* actual, std::size_t count);

/// inputs: [rows, k] in the compute type of ops, which made both matrices.
ProductError product_error(Ops& ops, const Matrix& exact, const Matrix& actual,
                           ConstTensorView inputs);

}  // namespace headrace
