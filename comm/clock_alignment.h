// Steady clocks of different machines count from different points: how far a rank's is from rank
// 0's.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace headrace {

/// What to add to this rank's now_ns() to get rank 0's.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = 0;  // at most; half of the quickest round trip
};

/// Collective. Rank 0 asks every other rank for the time, several times; the quickest answer
/// counts.
ClockOffset align_clock(const Communicator& communicator);

}  // namespace headrace
