#include "model/weight_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/quantize.h"

namespace headrace {

bool has_quantized_tensors(const Checkpoint& checkpoint) {
  return std::any_of(
      checkpoint.tensors().begin(), checkpoint.tensors().end(),
      [](const TensorInfo& info) { return info.quantization != Quantization::kNone; });
}

Quantization tensor_quantization(const TensorInfo& tensor, Quantization wanted) {
  if (tensor.rows == 1 || tensor.name == kPositionsName) return Quantization::kNone;
  const bool table = tensor.name == kEmbeddingName || tensor.name == kHeadName;
  return table && wanted == Quantization::kInt4 ? Quantization::kInt8 : wanted;
}

WeightTypes::WeightTypes(const Checkpoint& checkpoint, Quantization wanted) : wanted_(wanted) {
  for (const TensorInfo& tensor : checkpoint.tensors()) infos_[tensor.name] = &tensor;
}

const TensorInfo& WeightTypes::info(const WeightSource& source) const {
  return *infos_.at(source.name);
}

Quantization WeightTypes::of(const LinearSource& source) const {
  if (source.weight.empty()) return Quantization::kNone;
  const TensorInfo& first = info(source.weight.front());
  for (const WeightSource& block : source.weight) {
    const TensorInfo& other = info(block);
    if (other.quantization == first.quantization) continue;
    throw std::invalid_argument(fmt::format(
        "tensor {} is quantised as {}, but {} as {}; they are one matrix when the model runs",
        first.name, quantization_name(first.quantization), other.name,
        quantization_name(other.quantization)));
  }
  if (first.quantization != Quantization::kNone) return first.quantization;
  return tensor_quantization(first, wanted_);
}

bool WeightTypes::stored_as_integers(const LinearSource& source) const {
  return !source.weight.empty() && info(source.weight.front()).quantization != Quantization::kNone;
}

}  // namespace headrace
