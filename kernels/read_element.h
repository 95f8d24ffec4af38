// One element of a view as float32, whatever its type: for loading and for the reference's loops.
#pragma once

#include "kernels/numeric.h"
#include "kernels/tensor.h"

namespace headrace {

inline float read_element(const ConstTensorView& view, std::int64_t index) {
  switch (view.dtype) {
    case DType::kFloat32:
      return view.f32()[index];
    case DType::kBFloat16:
      return bf16_to_float(view.u16()[index]);
    case DType::kFloat16:
      return f16_to_float(view.u16()[index]);
  }
  return 0.0F;
}

}  // namespace headrace
