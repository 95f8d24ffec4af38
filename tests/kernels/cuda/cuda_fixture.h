// What the tests of the GPU backend share. In the build's own tests its real host code runs over
// the fake CUDA of tests/fake_cuda, its real kernel sources in the emulator of tests/cuda_emulator,
// under several schedules; on a GPU all is what it is in the product (machine.h).
#pragma once

#include <string>

#include "tests/kernels/cuda/hosted_ops.h"
#include "tests/kernels/cuda/machine.h"
#include "tests/kernels/op_fixture.h"

namespace headrace::testing_ops {

/// The reference that a compute type is compared with: float16 with float32.
inline DType reference_dtype(DType dtype) {
  return dtype == DType::kFloat16 ? DType::kFloat32 : dtype;
}

/// |actual - expected| <= relative * |expected| + absolute for every element, and none is NaN.
struct Tolerance {
  float relative = 0.0F;
  float absolute = 0.0F;
};
inline ::testing::AssertionResult close_to(const Tensor& actual, const Tensor& expected,
                                           Tolerance tolerance) {
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const float allowed = tolerance.relative * std::abs(expected.at(i)) + tolerance.absolute;
    if (!(std::abs(actual.at(i) - expected.at(i)) <= allowed)) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << actual.at(i) << " instead of " << expected.at(i);
    }
  }
  return ::testing::AssertionSuccess();
}

/// One unit in the last place of a type, relative.
inline float unit_of(DType dtype) {
  if (dtype == DType::kFloat32) return 0x1p-23F;
  return dtype == DType::kBFloat16 ? 0x1p-7F : 0x1p-10F;
}

class CudaOpsTest : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }

  static CudaOptions options(DType dtype, bool deterministic) {
    return {.compute_dtype = dtype,
            .deterministic = deterministic,
            .workspace_bytes = std::size_t{1} << 20};
  }

  std::unique_ptr<Ops> cuda_ = make_hosted_cuda_ops(options(GetParam(), false));
  std::unique_ptr<Ops> reference_ = make_reference_ops(reference_dtype(GetParam()));
};

inline std::string dtype_of(const ::testing::TestParamInfo<DType>& info) {
  return std::string(dtype_name(info.param));
}

inline auto all_cuda_dtypes() {
  return ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
}

}  // namespace headrace::testing_ops
