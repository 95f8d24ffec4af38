// How a call of an operator is timed: what `headrace bench --kernels` stands on.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "kernels/buffer.h"
#include "kernels/device_arena.h"
#include "kernels/tensor.h"

namespace headrace {

/// Of one call.
struct Timing {
  double seconds = 1e9;
  double host_seconds = 1e9;  // until the call returned, whatever it had queued
};

/// The best time of one call over many short rounds: on a shared machine some of them are
/// undisturbed. finish() waits for what is queued.
template <class Call, class Finish>
Timing best_timing(const Call& call, const Finish& finish) {
  using Clock = std::chrono::steady_clock;
  constexpr double kEnough = 0.3;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Timing best;
  const auto start = Clock::now();
  int calls = 1;
  for (int round = 0; round < 25 && (round < 2 || since(start) < kEnough);) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    const double queued = since(begin);
    finish();
    const double seconds = since(begin);
    if (seconds < 0.002) {
      calls *= 2;
      continue;
    }
    best.seconds = std::min(best.seconds, seconds / calls);
    best.host_seconds = std::min(best.host_seconds, queued / calls);
    ++round;
  }
  return best;
}

/// The same of a call that queues its work behind that of the arena's device.
template <class Call>
Timing timing_on(DeviceArena& arena, const Call& call) {
  const std::byte* word = arena.take(sizeof(float));
  std::array<std::byte, sizeof(float)> fetched{};
  return best_timing(call, [&] { arena.download(fetched, word); });
}

/// So many bytes of random numbers in which no operator meets a special case.
Buffer random_buffer(std::size_t bytes, DType dtype);

/// The same on the arena's device.
std::byte* random_bytes(DeviceArena& arena, std::size_t bytes, DType dtype);

}  // namespace headrace
