// Activations, gated or not (elementwise.h).
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/elementwise_kernel.h"

namespace headrace {
namespace {

HR_DEVICE float activated(float x, Activation activation) {
  if (activation == Activation::kSilu) return silu_f32(x);
  if (activation == Activation::kGeluTanh) return gelu_tanh_f32(x);
  return gelu_erf_f32(x);
}

template <class T, bool kGated>
struct ActivateOp {
  T* out;
  const float* x;
  std::int64_t cols;
  Activation activation;

  template <int kCount>
  HR_DEVICE void apply(std::int64_t row, std::int64_t column) const {
    const float* gates = x + row * (kGated ? 2 * cols : cols) + column;
    Pack<float, kCount> values = load_floats<kCount>(gates);
    for (float& value : values.items) value = activated(value, activation);
    if constexpr (kGated) {
      const Pack<float, kCount> ups = load_floats<kCount>(gates + cols);
      for (int e = 0; e < kCount; ++e) values.items[e] *= ups.items[e];
    }
    store_floats<kCount>(out + row * cols + column, values);
  }
};

template <class T>
void launch_for(const ActivateLaunch& args, Stream stream) {
  const ElementwiseShape shape{args.rows, args.cols, {args.out, args.x}};
  T* out = static_cast<T*>(args.out);
  if (args.gated) {
    launch_elementwise(ActivateOp<T, true>{out, args.x, args.cols, args.activation}, shape, stream);
  } else {
    launch_elementwise(ActivateOp<T, false>{out, args.x, args.cols, args.activation}, shape,
                       stream);
  }
}

}  // namespace

void launch_activate(const ActivateLaunch& args, Stream stream) {
  with_element_type(args.out_dtype,
                    [&](auto type) { launch_for<typename decltype(type)::type>(args, stream); });
}

}  // namespace headrace
