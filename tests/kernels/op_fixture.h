// What the operator tests share: the backends to compare, seeded inputs, and tensors that own
// memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/numeric.h"
#include "kernels/ops.h"
#include "kernels/read_element.h"
#include "kernels/thread_pool.h"

namespace headrace::testing_ops {

/// A tensor that owns its elements, and fills them with a pattern no operator writes by chance.
class Tensor {
 public:
  Tensor(std::int64_t rows, std::int64_t cols, DType dtype = DType::kFloat32)
      : rows_(rows), cols_(cols), dtype_(dtype), buffer_(view_bytes()) {
    if (view_bytes() > 0) std::memset(buffer_.data(), 0xA5, view_bytes());
  }

  TensorView view() { return {buffer_.data(), rows_, cols_, dtype_}; }
  ConstTensorView view() const { return {buffer_.data(), rows_, cols_, dtype_}; }
  float at(std::int64_t index) const { return read_element(view(), index); }
  void set(std::int64_t index, float value) {
    if (dtype_ == DType::kFloat32) {
      view().f32()[index] = value;
    } else {
      view().u16()[index] = dtype_ == DType::kBFloat16 ? float_to_bf16(value) : float_to_f16(value);
    }
  }
  float* f32() { return view().f32(); }
  std::int64_t size() const { return rows_ * cols_; }

 private:
  std::size_t view_bytes() const {
    return static_cast<std::size_t>(rows_ * cols_) * dtype_bytes(dtype_);
  }

  std::int64_t rows_;
  std::int64_t cols_;
  DType dtype_;
  Buffer buffer_;
};

inline Tensor random_tensor(std::int64_t rows, std::int64_t cols, DType dtype, unsigned seed,
                            float scale = 1.0F) {
  Tensor tensor(rows, cols, dtype);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.set(i, normal(generator));
  return tensor;
}

/// The same elements in another type, rounded.
inline Tensor converted(const Tensor& tensor, DType dtype) {
  Tensor out(tensor.view().rows, tensor.view().cols, dtype);
  for (std::int64_t i = 0; i < tensor.size(); ++i) out.set(i, tensor.at(i));
  return out;
}

/// Bit for bit, naming the first element that differs.
inline ::testing::AssertionResult same_bits(const Tensor& actual, const Tensor& expected) {
  const std::size_t bytes = expected.view().bytes();
  if (bytes == 0 || std::memcmp(actual.view().data, expected.view().data, bytes) == 0) {
    return ::testing::AssertionSuccess();
  }
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const std::size_t size = dtype_bytes(expected.view().dtype);
    const std::size_t offset = static_cast<std::size_t>(i) * size;
    if (std::memcmp(actual.view().data + offset, expected.view().data + offset, size) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << " of [" << expected.view().rows << ", " << expected.view().cols
             << "]: " << actual.at(i) << " instead of " << expected.at(i);
    }
  }
  return ::testing::AssertionFailure();
}

/// Fast backends this CPU can run.
inline std::vector<std::string> available_isas() {
  std::vector<std::string> isas = {"portable"};
  for (const std::string isa : {"avx2", "avx512", "avx512_bf16", "amx", "neon", "neon_dot"}) {
    if (cpu_has(isa)) isas.push_back(isa);
  }
  if (cpu_has("avx512_vnni")) isas.emplace_back("amx_emulated");
  return isas;
}

/// The reference that adds as the backend does.
inline std::unique_ptr<Ops> reference_of(const std::string& isa, DType dtype) {
  return make_reference_ops(dtype, isa.starts_with("amx") ? SumOrder::kTiles : SumOrder::kChain);
}

struct Backend {
  std::string isa;
  DType dtype = DType::kFloat32;
  int threads = 1;
  Quantization weights = Quantization::kNone;  // of matrices, in tests of products
  KvType kv_type = KvType::kCompute;           // in tests of attention
  QuantizedInputs inputs = QuantizedInputs::kInt8;
};

/// What GoogleTest prints for a failing case.
inline void PrintTo(const Backend& backend, std::ostream* out) {
  *out << backend.isa;
}

inline std::vector<Backend> all_backends() {
  std::vector<Backend> backends;
  for (const std::string& isa : available_isas()) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const bool emulated = isa == "amx_emulated";
      // In float32 only int8 products differ from AVX-512's, and bfloat16 has them, too.
      if (emulated && dtype == DType::kFloat32) continue;
      backends.push_back({isa, dtype, 1});
      if (!emulated) backends.push_back({isa, dtype, 3});
    }
  }
  return backends;
}

/// The same with quantised weights and cache.
inline std::vector<Backend> int8_backends() {
  std::vector<Backend> backends = all_backends();
  for (Backend& backend : backends) {
    backend.weights = Quantization::kInt8;
    backend.kv_type = KvType::kInt8;
  }
  return backends;
}

inline std::vector<Backend> int4_backends() {
  std::vector<Backend> backends = all_backends();
  for (Backend& backend : backends) backend.weights = Quantization::kInt4;
  return backends;
}

/// Quantised weights, inputs as they are.
inline std::vector<Backend> weight_only_backends() {
  std::vector<Backend> backends;
  for (Backend backend : all_backends()) {
    backend.inputs = QuantizedInputs::kCompute;
    for (const Quantization weights : {Quantization::kInt8, Quantization::kInt4}) {
      backend.weights = weights;
      backends.push_back(backend);
    }
  }
  return backends;
}

inline std::string backend_name(const ::testing::TestParamInfo<Backend>& info) {
  return info.param.isa + "_" + std::string(dtype_name(info.param.dtype)) + "_" +
         std::to_string(info.param.threads) + "threads" +
         (info.param.weights == Quantization::kInt8   ? "_int8"
          : info.param.weights == Quantization::kInt4 ? "_int4"
                                                      : "");
}

/// A fast backend beside the reference.
class OpsTest : public ::testing::TestWithParam<Backend> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  Quantization weights() const { return GetParam().weights; }
  QuantizedInputs inputs() const { return GetParam().inputs; }
  AttentionShape with_kv_type(AttentionShape shape) const {
    shape.kv_type = GetParam().kv_type;
    return shape;
  }
  /// The portable kernels call a library function for every product; they get fewer cases.
  bool slow() const { return GetParam().isa == "portable"; }

  std::unique_ptr<ThreadPool> pool_ = make_thread_pool(GetParam().threads);
  std::unique_ptr<Ops> fast_ = make_cpu_ops(GetParam().dtype, *pool_, GetParam().isa);
  std::unique_ptr<Ops> reference_ = reference_of(GetParam().isa, GetParam().dtype);
};

}  // namespace headrace::testing_ops
