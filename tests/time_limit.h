// Bounds on time in unit tests. They are wide, since other work shares the machine, and wider where
// every access to memory is checked.
#pragma once

namespace headrace {

/// The limit, in any unit, for this build.
constexpr double time_limit(double limit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 20 * limit;
#else
  return limit;
#endif
}

}  // namespace headrace
