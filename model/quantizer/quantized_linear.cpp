#include "model/quantizer/quantized_linear.h"

#include <algorithm>
#include <utility>

namespace headrace {
namespace {

constexpr std::int64_t kTaskRows = 8;

}  // namespace

QuantizedLinear::QuantizedLinear(Checkpoint& model, ThreadPool& pool, const LinearSource& source)
    : pool_(pool), source_(source), values_(static_cast<std::size_t>(source.n() * source.k())) {
  float* out = values_.data();
  for (const WeightSource& tensor : source.weight) {
    model.read_block(tensor.name, tensor.block, out);
    out += tensor.rows() * tensor.cols();
  }
}

IntegerLayout QuantizedLinear::layout(std::size_t tensor, Quantization type) const {
  return {type, source_.weight[tensor].rows(), source_.tree.bounds};
}

std::size_t QuantizedLinear::bytes(Quantization type) const {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < source_.weight.size(); ++i) bytes += layout(i, type).bytes();
  return bytes;
}

QuantizedLinear::Result QuantizedLinear::rounded(Quantization type, Ops& ops) const {
  const std::vector<IntegerUnit> units = integer_units(source_.tree.bounds, type);
  return quantize(type, ops, [&](const float* values, IntegerRow& out) {
    quantize_row(values, units, type, out);
  });
}

QuantizedLinear::Result QuantizedLinear::compensated(const CompensatedRounding& rounding,
                                                     Quantization type, Ops& ops) const {
  return quantize(type, ops,
                  [&](const float* values, IntegerRow& out) { rounding.quantize(values, out); });
}

QuantizedLinear::Result QuantizedLinear::quantize(Quantization type, Ops& ops,
                                                  const RowQuantizer& quantizer) const {
  Result result;
  result.matrix = ops.make_matrix({source_.n(), source_.k(), source_.tree, type});
  const std::size_t num_units = integer_units(source_.tree.bounds, type).size();
  std::int64_t first = 0;  // row of the tensor at hand
  for (std::size_t i = 0; i < source_.weight.size(); ++i) {
    const IntegerLayout places = layout(i, type);
    std::vector<std::byte>& bytes = result.tensors.emplace_back(places.bytes());
    const auto quantize_one = [&](std::int64_t row, IntegerRow& room) {
      quantizer(values_.data() + (first + row) * source_.k(), room);
      result.matrix->set_integer_rows(first + row, room.view());
      for (std::size_t s = 0; s < places.num_slices(); ++s) {
        places.encode(s, room.view(), bytes.data() + places.record_offset(s, row));
      }
    };
    const std::int64_t rows = places.rows();
    pool_.parallel_for(static_cast<int>((rows + kTaskRows - 1) / kTaskRows), [&](int task) {
      IntegerRow room(source_.k(), num_units);
      const std::int64_t begin = task * kTaskRows;
      for (std::int64_t r = begin; r < std::min(begin + kTaskRows, rows); ++r) {
        quantize_one(r, room);
      }
    });
    first += rows;
  }
  return result;
}

}  // namespace headrace
