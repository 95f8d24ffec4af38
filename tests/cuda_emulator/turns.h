// Whose turn it is among the threads of a block that can go on (emulator.h, Schedule).
#pragma once

#include <array>
#include <cstdint>
#include <random>

#include "tests/cuda_emulator/emulator.h"

namespace headrace::emulator {

inline constexpr int kMaxWarps = 32;

class Turns {
 public:
  Turns(Schedule schedule, std::uint32_t seed, int num_threads);

  void add(int thread) { ready_[warp_of(thread)] |= bit_of(thread); }
  /// Takes the next thread out; -1 where nobody can go on.
  int take();

 private:
  enum class Style : std::uint8_t { kLowest, kHighest, kAnyThread, kWarpsByPriority };

  static std::size_t warp_of(int thread) { return static_cast<std::size_t>(thread / kLanes); }
  static std::uint32_t bit_of(int thread) { return 1U << (thread % kLanes); }

  int take_any();
  int take_by_priority();
  int take_from(std::size_t warp, std::uint32_t lanes);

  Style style_;
  std::minstd_rand random_;
  std::array<std::uint32_t, kMaxWarps> ready_{};
  std::array<std::uint32_t, kMaxWarps> starved_{};  // lanes that wait until nobody else can go on
  std::array<std::uint32_t, kMaxWarps> priority_{};
  std::uint32_t lowest_ = 1U << 30;
};

}  // namespace headrace::emulator
