// Quantising by rounding every weight to the nearest integer: what `generate --quantization` does
// as it loads, so that answers are the same.
#pragma once

#include <memory>

#include "kernels/thread_pool.h"
#include "model/quantizer/matrix_quantizer.h"

namespace headrace {

/// model and pool must outlive it. wanted is not kNone.
std::unique_ptr<MatrixQuantizer> make_rounding_quantizer(Checkpoint& model, ThreadPool& pool,
                                                         Quantization wanted);

}  // namespace headrace
