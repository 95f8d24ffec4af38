// Operators whose products somebody looks at: forwards each to another backend, and shows the
// inputs of every whole product before it is taken. The numbers are the other backend's.
#pragma once

#include <functional>
#include <memory>

#include "kernels/ops.h"

namespace headrace {

/// x [m, k] in the compute type, about to be multiplied with w.
using ProductObserver = std::function<void(const Matrix& w, ConstTensorView x)>;

/// ops must outlive it.
std::unique_ptr<Ops> make_observed_ops(Ops& ops, ProductObserver observer);

}  // namespace headrace
