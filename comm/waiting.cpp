#include "comm/waiting.h"

#include <sched.h>

#include <stdexcept>
#include <thread>
#include <utility>

namespace headrace {
namespace {

using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::steady_clock;

// A hop in shared memory takes some 10 microseconds: spinning that long costs nothing and saves the
// wake-up. A step takes milliseconds: sleeping 50 microseconds at a time delays it by under 1 %.
constexpr auto kSpin = microseconds(50);
constexpr auto kYield = microseconds(200);
constexpr auto kSleep = microseconds(50);

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             steady_clock::now().time_since_epoch())
      .count();
}

double seconds_since(std::int64_t then_ns) {
  return static_cast<double>(now_ns() - then_ns) * 1e-9;
}

void throw_stalled(double stall_timeout_s, const std::string& what) {
  throw std::runtime_error("waited " + std::to_string(static_cast<int>(stall_timeout_s)) +
                           " s (--stall-timeout) " + what);
}

Waiting::Waiting(std::string what, double stall_timeout_s)
    : what_(std::move(what)), stall_timeout_s_(stall_timeout_s), start_(steady_clock::now()) {}

void Waiting::pause() {
  const auto waited = steady_clock::now() - start_;
  if (stall_timeout_s_ > 0 && waited > duration<double>(stall_timeout_s_)) {
    throw_stalled(stall_timeout_s_, "for " + what_);
  }
  pause_politely(std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count());
}

void pause_politely(std::int64_t waited_ns) {
  const auto waited = std::chrono::nanoseconds(waited_ns);
  if (waited < kSpin) return;
  if (waited < kYield) {
    sched_yield();
    return;
  }
  std::this_thread::sleep_for(kSleep);
}

}  // namespace headrace
