// What each matrix of a stage holds: the compute type, or integers. A quantised checkpoint says it
// tensor by tensor; of any other one every matrix gets what the job asks for.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kernels/ops.h"
#include "model/checkpoint/checkpoint.h"
#include "model/weight_sources.h"

namespace headrace {

/// What matrices hold.
struct WeightType {
  DType dtype = DType::kFloat32;  // where they are not quantised
  Quantization quantization = Quantization::kNone;
};

/// Whether a checkpoint has quantised matrices.
bool has_quantized_tensors(const Checkpoint& checkpoint);

/// What a tensor becomes where a model is quantised. The embedding's rows are read one by one, and
/// the head's sums decide about tokens: of int4 both would lose too much, so they are int8. Learned
/// positions are only looked up, and vectors stay as well.
Quantization tensor_quantization(const TensorInfo& tensor, Quantization wanted);

class WeightTypes {
 public:
  /// wanted: of a checkpoint without quantised tensors. The checkpoint must outlive the object.
  WeightTypes(const Checkpoint& checkpoint, Quantization wanted);

  /// Of the matrix that a source makes. Throws std::invalid_argument where it is made of tensors
  /// that are quantised in different ways.
  Quantization of(const LinearSource& source) const;

  /// Whether the source's tensors are integers in the checkpoint.
  bool stored_as_integers(const LinearSource& source) const;

 private:
  const TensorInfo& info(const WeightSource& source) const;

  std::map<std::string_view, const TensorInfo*> infos_;
  Quantization wanted_;
};

}  // namespace headrace
