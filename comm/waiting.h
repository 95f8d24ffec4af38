// How a thread waits for something that it must poll for: briefly at full speed, then politely, so
// that ranks which share cores do not take them from each other, and with a deadline, since a
// stopped rank or a dead link is noticed by nobody else.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace headrace {

/// Nanoseconds of a steady clock, from a point that stays the same while the process lives.
std::int64_t now_ns();

double seconds_since(std::int64_t then_ns);

/// Returns at once for the first 50 microseconds of waiting, then yields, then sleeps 50
/// microseconds at a time.
void pause_politely(std::int64_t waited_ns);

/// Throws std::runtime_error: nothing came for so long. what says for what it waited: "for the sums
/// of rank 3", "to hear from rank 3".
[[noreturn]] void throw_stalled(double stall_timeout_s, const std::string& what);

/// Throws std::runtime_error naming what was awaited when it does not come for too long.
class Waiting {
 public:
  /// stall_timeout_s 0: wait for ever.
  Waiting(std::string what, double stall_timeout_s);

  /// Call after an unsuccessful poll.
  void pause();

 private:
  std::string what_;
  double stall_timeout_s_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace headrace
