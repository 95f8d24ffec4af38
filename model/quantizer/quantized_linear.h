// A matrix as the model runs it (queries, keys and values in one, gates and ups in one), on its way
// from values to integers: as a matrix to try and as the bytes of its tensors in a checkpoint.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "kernels/thread_pool.h"
#include "model/checkpoint/integer_layout.h"
#include "model/quantizer/compensated_rounding.h"
#include "model/weight_sources.h"

namespace headrace {

class QuantizedLinear {
 public:
  /// Reads the values. source: of a rank that has the whole matrix.
  QuantizedLinear(Checkpoint& model, ThreadPool& pool, const LinearSource& source);

  struct Result {
    std::unique_ptr<Matrix> matrix;
    std::vector<std::vector<std::byte>> tensors;  // in the source's order
  };
  /// Every weight to the nearest integer.
  Result rounded(Quantization type, Ops& ops) const;
  /// As a compensation for the matrix's inputs says, of that type.
  Result compensated(const CompensatedRounding& rounding, Quantization type, Ops& ops) const;

  /// Bytes of all tensors with that type.
  std::size_t bytes(Quantization type) const;

 private:
  using RowQuantizer = std::function<void(const float* values, IntegerRow& out)>;
  IntegerLayout layout(std::size_t tensor, Quantization type) const;
  Result quantize(Quantization type, Ops& ops, const RowQuantizer& quantizer) const;

  ThreadPool& pool_;
  const LinearSource& source_;
  std::vector<float> values_;  // [n, k]
};

}  // namespace headrace
