#include "kernels/cuda/elementwise.h"

#include "kernels/cuda/elementwise_kernel.h"

namespace headrace {
namespace {

template <class T>
struct EmbedOp {
  float* out;
  const T* table;
  const std::int32_t* ids;
  std::int64_t k;

  template <int kCount>
  HR_DEVICE void apply(std::int64_t row, std::int64_t column) const {
    store_floats<kCount>(out + row * k + column,
                         load_floats<kCount>(table + ids[row] * k + column));
  }
};

template <class T>
struct ConvertOp {
  T* out;
  const float* x;

  template <int kCount>
  HR_DEVICE void apply(std::int64_t /*row*/, std::int64_t i) const {
    store_floats<kCount>(out + i, load_floats<kCount>(x + i));
  }
};

struct ScaleOp {
  float* inout;
  float factor;

  template <int kCount>
  HR_DEVICE void apply(std::int64_t /*row*/, std::int64_t i) const {
    Pack<float, kCount> values = load_floats<kCount>(inout + i);
    for (float& value : values.items) value *= factor;
    store_floats<kCount>(inout + i, values);
  }
};

struct SoftCapOp {
  float* inout;
  float cap;

  template <int kCount>
  HR_DEVICE void apply(std::int64_t /*row*/, std::int64_t i) const {
    Pack<float, kCount> values = load_floats<kCount>(inout + i);
    for (float& value : values.items) value = soft_cap_f32(value, cap);
    store_floats<kCount>(inout + i, values);
  }
};

struct CopyRowsOp {
  float* out;
  const float* x;
  std::int64_t out_stride;
  std::int64_t x_stride;

  template <int kCount>
  HR_DEVICE void apply(std::int64_t row, std::int64_t column) const {
    store_floats<kCount>(out + row * out_stride + column,
                         load_floats<kCount>(x + row * x_stride + column));
  }
};

template <class T>
struct MakeRowsOp {
  T* out;
  RandomRows rows;
  std::int64_t cols;

  template <int kCount>
  HR_DEVICE void apply(std::int64_t row, std::int64_t column) const {
    const std::uint64_t first = rows.first + static_cast<std::uint64_t>(row) * rows.stride +
                                static_cast<std::uint64_t>(column);
    Pack<float, kCount> values;
    for (int e = 0; e < kCount; ++e) {
      values.items[e] = rows.values(first + static_cast<std::uint64_t>(e));
    }
    store_floats<kCount>(out + row * cols + column, values);
  }
};

struct AddScaledOp {
  float* inout;
  const float* x;
  float factor;

  template <int kCount>
  HR_DEVICE void apply(std::int64_t /*row*/, std::int64_t i) const {
    Pack<float, kCount> values = load_floats<kCount>(inout + i);
    const Pack<float, kCount> added = load_floats<kCount>(x + i);
    for (int e = 0; e < kCount; ++e) {
      const float scaled = added.items[e] * factor;
      values.items[e] += scaled;
    }
    store_floats<kCount>(inout + i, values);
  }
};

}  // namespace

void launch_embed(const EmbedLaunch& args, Stream stream) {
  with_element_type(args.table_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch_elementwise(EmbedOp<T>{args.out, static_cast<const T*>(args.table), args.ids, args.k},
                       {args.rows, args.k, {args.out, args.table}}, stream);
  });
}

void launch_convert(const ConvertLaunch& args, Stream stream) {
  with_element_type(args.out_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch_elementwise(ConvertOp<T>{static_cast<T*>(args.out), args.x},
                       {1, args.count, {args.out, args.x}}, stream);
  });
}

void launch_make_rows(const MakeRowsLaunch& args, Stream stream) {
  with_element_type(args.out_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch_elementwise(MakeRowsOp<T>{static_cast<T*>(args.out), args.rows, args.cols},
                       {args.rows.rows, args.cols, {args.out}}, stream);
  });
}

void launch_scale(const ScaleLaunch& args, Stream stream) {
  launch_elementwise(ScaleOp{args.inout, args.factor}, {1, args.count, {args.inout}}, stream);
}

void launch_soft_cap(const ScaleLaunch& args, Stream stream) {
  launch_elementwise(SoftCapOp{args.inout, args.factor}, {1, args.count, {args.inout}}, stream);
}

// The second rows are aligned where the strides are.
void launch_copy_rows(const CopyRowsLaunch& args, Stream stream) {
  const CopyRowsOp op{args.out, args.x, args.out_stride, args.x_stride};
  launch_elementwise(op,
                     {args.rows,
                      args.cols,
                      {args.out, args.x, args.out + args.out_stride, args.x + args.x_stride}},
                     stream);
}

void launch_add_scaled(const AddScaledLaunch& args, Stream stream) {
  launch_elementwise(AddScaledOp{args.inout, args.x, args.factor},
                     {1, args.count, {args.inout, args.x}}, stream);
}

}  // namespace headrace
