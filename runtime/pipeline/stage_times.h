// Where a stage's time went. Every stage adds up its own and passes all of them on with each
// message, so that the head can show them while the job runs.
#pragma once

#include <chrono>
#include <cstdint>

namespace headrace {

/// Nanoseconds since the stage began to take steps.
struct StageTimes {
  std::int64_t busy_ns = 0;      // computing
  std::int64_t wait_ns = 0;      // no step was there
  std::int64_t transfer_ns = 0;  // moving messages, or waiting for room to send
};

/// Adds the time between its making and its end to one counter.
class ScopedTime {
 public:
  explicit ScopedTime(std::int64_t& counter_ns)
      : counter_ns_(counter_ns), start_(std::chrono::steady_clock::now()) {}
  ~ScopedTime() {
    counter_ns_ += std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::steady_clock::now() - start_)
                       .count();
  }
  ScopedTime(const ScopedTime&) = delete;
  ScopedTime& operator=(const ScopedTime&) = delete;

 private:
  std::int64_t& counter_ns_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace headrace
