// How a loop at the peak is timed, for peak_*.cpp.
#pragma once

#include <algorithm>
#include <chrono>

namespace headrace {

inline constexpr int kPeakRounds = 100'000;  // of a loop

/// Best of many runs of a loop of kPeakRounds rounds, in GFLOP/s.
template <class Loop>
double measure_peak(double flops_per_round, Loop loop) {
  double best = 0.0;
  for (int trial = 0; trial < 20; ++trial) {
    const auto begin = std::chrono::steady_clock::now();
    loop();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 1e-9 * flops_per_round * kPeakRounds / taken.count());
  }
  return best;
}

}  // namespace headrace
