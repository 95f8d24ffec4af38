#include "model/checkpoint/encode.h"

#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/numeric.h"

namespace headrace {
namespace {

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return (bits & 0xffffU) == 0 ? static_cast<std::uint16_t>(bits >> 16) : float_to_bf16(value);
}

// The half-precision number that became this value: nothing is rounded.
std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (magnitude >= 0x7f800000U) {
    half = 0x7c00U | (magnitude >> 13 & 0x3ffU);
  } else if (magnitude >= 113U << 23) {
    half = (magnitude - (112U << 23)) >> 13;
  } else if (magnitude != 0) {  // a subnormal: mantissa * 2^-24
    const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    half = mantissa >> (126U - (magnitude >> 23));
  }
  return static_cast<std::uint16_t>(sign | half);
}

template <std::uint16_t (*Convert)(float)>
void encode_halves(const float* values, std::int64_t count, std::byte* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint16_t half = Convert(values[i]);
    std::memcpy(out + 2 * i, &half, sizeof(half));
  }
}

}  // namespace

std::string type_to_write(const TensorInfo& info, DType preferred) {
  if (!info.as_stored) return "F32";
  const bool plain =
      info.stored_type == "F32" || info.stored_type == "BF16" || info.stored_type == "F16";
  if (plain) return info.stored_type;
  return preferred == DType::kFloat32 ? "F32" : "BF16";
}

void encode(std::string_view type, const float* values, std::int64_t count, std::byte* out) {
  if (type == "F32") {
    std::memcpy(out, values, static_cast<std::size_t>(count) * sizeof(float));
  } else if (type == "BF16") {
    encode_halves<to_bf16>(values, count, out);
  } else if (type == "F16") {
    encode_halves<to_f16>(values, count, out);
  } else {
    throw std::logic_error("no encoding for the type " + std::string(type));
  }
}

}  // namespace headrace
