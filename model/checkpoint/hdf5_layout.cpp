#include "model/checkpoint/hdf5_layout.h"

namespace headrace {
namespace {

struct FloatFields {
  std::size_t exponent_bits;
  std::size_t mantissa_bits;
  std::size_t bias;
};

// HDF5 has no 16-bit floats of its own, but any float can be described: readers that know nothing
// of Headrace then see the right values.
Hdf5Id half_type(const FloatFields& fields) {
  Hdf5Id type(HR_HDF5(H5Tcopy(H5T_IEEE_F32LE)));
  HR_HDF5(H5Tset_fields(type.get(), 15, fields.mantissa_bits, fields.exponent_bits, 0,
                        fields.mantissa_bits));
  HR_HDF5(H5Tset_size(type.get(), 2));
  HR_HDF5(H5Tset_ebias(type.get(), fields.bias));
  return type;
}

}  // namespace

Quantization Hdf5Tensor::quantization() const {
  if (type == "INT8") return Quantization::kInt8;
  return type == "INT4" ? Quantization::kInt4 : Quantization::kNone;
}

IntegerLayout Hdf5Tensor::integers() const {
  return {quantization(), shape.front(), {slice_bounds.begin(), slice_bounds.end()}};
}

std::uint64_t Hdf5Tensor::implied_bytes() const {
  if (quantization() != Quantization::kNone) return integers().bytes();
  std::uint64_t implied = hdf5_type_bytes(type);
  for (const std::int64_t length : shape) implied *= static_cast<std::uint64_t>(length);
  return implied;
}

Hdf5Id hdf5_type(std::string_view type) {
  if (type == "F32") return Hdf5Id(HR_HDF5(H5Tcopy(H5T_IEEE_F32LE)));
  if (type == "BF16") return half_type({.exponent_bits = 8, .mantissa_bits = 7, .bias = 127});
  if (type == "F16") return half_type({.exponent_bits = 5, .mantissa_bits = 10, .bias = 15});
  return {};
}

std::uint64_t hdf5_type_bytes(std::string_view type) {
  return type == "F32" ? 4 : 2;
}

}  // namespace headrace
