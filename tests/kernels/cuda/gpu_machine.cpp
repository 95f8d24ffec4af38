#include "tests/kernels/cuda/machine.h"

namespace headrace::testing_ops {

bool is_emulated() {
  return false;
}

void under_schedules(const std::function<void()>& body) {
  body();
}

}  // namespace headrace::testing_ops
