// Bounds on time and memory in unit tests. Those on time are wide, since other work shares the
// machine; both are wider where every access to memory is checked.
#pragma once

#include <cstdint>

namespace headrace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kSanitizersFactor = 20;
#else
inline constexpr int kSanitizersFactor = 1;
#endif

/// The limit, in any unit, for this build.
constexpr double time_limit(double limit) {
  return kSanitizersFactor * limit;
}

/// The same for memory that is seen from outside: sanitizers keep notes on every byte.
constexpr std::int64_t resident_limit(std::int64_t bytes) {
  return kSanitizersFactor * bytes;
}

}  // namespace headrace
