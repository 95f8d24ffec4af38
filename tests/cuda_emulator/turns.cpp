#include "tests/cuda_emulator/turns.h"

#include <bit>

namespace headrace::emulator {
namespace {

constexpr unsigned kTurnsBetweenChanges = 64;  // of priorities, on average
constexpr unsigned kStarvedShare = 4;          // one lane in so many

}  // namespace

Turns::Turns(Schedule schedule, std::uint32_t seed, int num_threads) : random_(seed + 1) {
  random_.discard(4);
  if (schedule == Schedule::kForward) {
    style_ = Style::kLowest;
  } else if (schedule == Schedule::kReverse) {
    style_ = Style::kHighest;
  } else {
    style_ = random_() / 16 % 2 == 0 ? Style::kAnyThread : Style::kWarpsByPriority;
  }
  for (int thread = 0; thread < num_threads; ++thread) {
    add(thread);
    if (random_() / 16 % kStarvedShare == 0) starved_[warp_of(thread)] |= bit_of(thread);
  }
  for (std::uint32_t& priority : priority_) {
    priority = (1U << 30) + static_cast<std::uint32_t>(random_() / 16);
  }
}

int Turns::take() {
  switch (style_) {
    case Style::kLowest:
      for (std::size_t warp = 0; warp < kMaxWarps; ++warp) {
        if (ready_[warp] != 0) return take_from(warp, ready_[warp] & -ready_[warp]);
      }
      return -1;
    case Style::kHighest:
      for (std::size_t warp = kMaxWarps; warp-- > 0;) {
        if (ready_[warp] != 0) return take_from(warp, std::bit_floor(ready_[warp]));
      }
      return -1;
    case Style::kAnyThread:
      return take_any();
    case Style::kWarpsByPriority:
      return take_by_priority();
  }
  return -1;
}

int Turns::take_any() {
  const std::size_t start = random_() / 16 % kMaxWarps;
  for (const bool starved_too : {false, true}) {
    for (std::size_t i = 0; i < kMaxWarps; ++i) {
      const std::size_t warp = (start + i) % kMaxWarps;
      const std::uint32_t lanes = ready_[warp] & ~(starved_too ? 0U : starved_[warp]);
      if (lanes != 0) return take_from(warp, lanes);
    }
  }
  return -1;
}

int Turns::take_by_priority() {
  std::size_t best = kMaxWarps;
  for (std::size_t warp = 0; warp < kMaxWarps; ++warp) {
    if (ready_[warp] == 0) continue;
    if (best == kMaxWarps || priority_[warp] > priority_[best]) best = warp;
  }
  if (best == kMaxWarps) return -1;
  if (random_() / 16 % kTurnsBetweenChanges == 0) priority_[best] = --lowest_;
  return take_from(best, ready_[best]);
}

int Turns::take_from(std::size_t warp, std::uint32_t lanes) {
  const auto skip = static_cast<int>(random_() / 16 % static_cast<unsigned>(std::popcount(lanes)));
  for (int i = 0; i < skip; ++i) lanes &= lanes - 1;
  const int lane = std::countr_zero(lanes);
  ready_[warp] &= ~(1U << lane);
  return static_cast<int>(warp) * kLanes + lane;
}

}  // namespace headrace::emulator
