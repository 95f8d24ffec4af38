// Quantising by rounding every weight to the nearest integer: what `generate --quantization` does
// as it loads, so that answers are the same. Or to one of the two nearest, by chance.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/thread_pool.h"
#include "model/quantizer/matrix_quantizer.h"

namespace headrace {

struct RoundingOptions {
  Quantization wanted = Quantization::kInt8;     // not kNone
  std::optional<std::uint64_t> stochastic_seed;  // nullopt: to the nearest
};

/// model and pool must outlive it.
std::unique_ptr<MatrixQuantizer> make_rounding_quantizer(Checkpoint& model, ThreadPool& pool,
                                                         const RoundingOptions& options);

}  // namespace headrace
