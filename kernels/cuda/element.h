// Elements in memory and as float32, one by one or several in one access.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/ptx.h"
#include "kernels/cuda/simt.h"
#include "kernels/numeric.h"
#include "kernels/tensor.h"

namespace headrace {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

/// call(std::type_identity<T>()) with the T that elements of this type have.
template <class Call>
void with_element_type(DType dtype, const Call& call) {
  switch (dtype) {
    case DType::kFloat32:
      return call(std::type_identity<float>());
    case DType::kBFloat16:
      return call(std::type_identity<BFloat16>());
    case DType::kFloat16:
      return call(std::type_identity<Float16>());
  }
}

HR_DEVICE float to_float(float value) {
  return value;
}
HR_DEVICE float to_float(BFloat16 value) {
  return bf16_to_float(value.bits);
}
HR_DEVICE float to_float(Float16 value) {
  return unpack_f16(value.bits);
}

/// Two values rounded to T (16 bits), the first in the low half.
template <class T>
HR_DEVICE std::uint32_t pack_pair(float low, float high) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return pack_bf16(low, high);
  } else {
    return pack_f16(low, high);
  }
}

template <class T>
HR_DEVICE T from_float(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return T{static_cast<std::uint16_t>(pack_pair<T>(value, 0.0F))};
  }
}

/// The nearest T, as a float32.
template <class T>
HR_DEVICE float round_to(float value) {
  return to_float(from_float<T>(value));
}

/// kCount elements that one instruction moves where they are 16 bytes or fewer.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T items[kCount];
};

/// p is aligned to the size of the pack.
template <int kCount, class T>
HR_DEVICE Pack<T, kCount> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, kCount>*>(p);
}

template <int kCount, class T>
HR_DEVICE void store_pack(T* p, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(p) = pack;
}

template <int kCount, class T>
HR_DEVICE Pack<float, kCount> load_floats(const T* p) {
  const Pack<T, kCount> raw = load_pack<kCount>(p);
  Pack<float, kCount> values;
  for (int i = 0; i < kCount; ++i) values.items[i] = to_float(raw.items[i]);
  return values;
}

template <int kCount, class T>
HR_DEVICE void store_floats(T* p, const Pack<float, kCount>& values) {
  Pack<T, kCount> raw;
  for (int i = 0; i < kCount; ++i) raw.items[i] = from_float<T>(values.items[i]);
  store_pack<kCount>(p, raw);
}

}  // namespace headrace
