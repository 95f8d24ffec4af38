#include "kernels/cuda_backend.h"

namespace headrace {

std::string_view cuda_build() {
  return HEADRACE_CUDA_TEXT;
}

}  // namespace headrace
