#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cuda_emulator/emulator.h"
#include "tests/kernels/cuda/machine.h"

namespace headrace::testing_ops {
namespace {

unsigned num_seeds() {
  const char* text = std::getenv("HEADRACE_SEEDS");
  return text == nullptr ? 3 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

}  // namespace

bool is_emulated() {
  return true;
}

void under_schedules(const std::function<void()>& body) {
  for (unsigned seed = 0; seed <= num_seeds(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "schedule " << seed);
    const auto kind = seed == 0 ? emulator::Schedule::kReverse : emulator::Schedule::kRandom;
    const emulator::ScopedSchedule schedule(kind, seed);
    const std::int64_t before = emulator::num_launches();
    body();
    ASSERT_GT(emulator::num_launches(), before) << "no kernel ran";
  }
}

}  // namespace headrace::testing_ops
