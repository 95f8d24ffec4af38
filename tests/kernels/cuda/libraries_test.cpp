// The backend with CUDA's own libraries, as the product links it.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda_backend.h"

namespace headrace {
namespace {

TEST(CudaLibraries, MakeOperatorsOrSayThatThereIsNoGpu) {
  try {
    const auto ops = make_cuda_ops({.compute_dtype = DType::kBFloat16});
    EXPECT_EQ(ops->compute_dtype(), DType::kBFloat16);
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("no GPU can be used: "), 0U) << error.what();
  }
}

}  // namespace
}  // namespace headrace
