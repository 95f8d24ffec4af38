// What the tests of the GPU backend share: its real host code over the fake CUDA of
// tests/fake_cuda, its real kernel sources in the emulator of tests/cuda_emulator, under several
// schedules.
#pragma once

#include <cstdlib>
#include <string>

#include "kernels/cuda_backend.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/kernels/op_fixture.h"

namespace headrace::testing_ops {

/// HEADRACE_SEEDS random schedules where that is set (run.sh), else three.
inline unsigned num_seeds() {
  const char* text = std::getenv("HEADRACE_SEEDS");
  return text == nullptr ? 3 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

/// body() under the reverse schedule and under random ones; at least one kernel has to run in each.
template <class Body>
void under_schedules(const Body& body) {
  for (unsigned seed = 0; seed <= num_seeds(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "schedule " << seed);
    const auto kind = seed == 0 ? emulator::Schedule::kReverse : emulator::Schedule::kRandom;
    const emulator::ScopedSchedule schedule(kind, seed);
    const std::int64_t before = emulator::num_launches();
    body();
    ASSERT_GT(emulator::num_launches(), before) << "no kernel ran";
  }
}

/// The reference that a compute type is compared with: float16 with float32.
inline DType reference_dtype(DType dtype) {
  return dtype == DType::kFloat16 ? DType::kFloat32 : dtype;
}

/// The same elements in another type, rounded.
inline Tensor converted(const Tensor& tensor, DType dtype) {
  Tensor out(tensor.view().rows, tensor.view().cols, dtype);
  for (std::int64_t i = 0; i < tensor.size(); ++i) out.set(i, tensor.at(i));
  return out;
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

  std::unique_ptr<Ops> cuda_ = make_cuda_ops(options(GetParam(), false));
  std::unique_ptr<Ops> reference_ = make_reference_ops(reference_dtype(GetParam()));
};

inline std::string dtype_of(const ::testing::TestParamInfo<DType>& info) {
  return std::string(dtype_name(info.param));
}

inline auto all_cuda_dtypes() {
  return ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
}

}  // namespace headrace::testing_ops
