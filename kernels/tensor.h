// Element types and views: what a tensor is to the operators. Views own nothing, are passed by
// value and always describe contiguous row-major memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headrace {

enum class DType : std::uint8_t { kFloat32, kBFloat16, kFloat16 };

/// Bytes of one element.
constexpr std::size_t dtype_bytes(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : 2;
}

/// "float32", "bfloat16" or "float16", as --dtype spells them.
constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
  }
  return "unknown";
}

/// A matrix of activations or of weights as read: [rows, cols], row-major, no padding.
struct TensorView {
  std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kFloat32;

  std::size_t bytes() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) * dtype_bytes(dtype);
  }
  float* f32() const { return reinterpret_cast<float*>(data); }
  std::uint16_t* u16() const { return reinterpret_cast<std::uint16_t*>(data); }
};

struct ConstTensorView {
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kFloat32;

  ConstTensorView() = default;
  ConstTensorView(const std::byte* d, std::int64_t r, std::int64_t c, DType t)
      : data(d), rows(r), cols(c), dtype(t) {}
  ConstTensorView(
      const TensorView& v)  // NOLINT(google-explicit-constructor): a view may lose write access
      : data(v.data), rows(v.rows), cols(v.cols), dtype(v.dtype) {}

  std::size_t bytes() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) * dtype_bytes(dtype);
  }
  const float* f32() const { return reinterpret_cast<const float*>(data); }
  const std::uint16_t* u16() const { return reinterpret_cast<const std::uint16_t*>(data); }
};

}  // namespace headrace
