// What the tests of the GPU backend run on: the emulator, in the build's own tests, or a GPU, in
// the bundle for a machine that has one (tests/gpu). The tests are the same.
#pragma once

#include <functional>

namespace headrace::testing_ops {

/// Whether kernels are emulated, so that sizes have to be small and rounding is known to the bit.
bool is_emulated();

/// body() as often as this machine has ways to order threads: emulated, under the reverse schedule
/// and random ones (HEADRACE_SEEDS of them, or three), each of which has to run a kernel; on a GPU
/// once.
void under_schedules(const std::function<void()>& body);

}  // namespace headrace::testing_ops
