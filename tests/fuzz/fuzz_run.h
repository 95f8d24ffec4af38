// A number of mutations of one target, and what came of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace headrace {

struct FuzzRun {
  std::int64_t count = 0;
  std::uint64_t seed = 1;
  /// Sees each input before the target does; may be empty.
  std::function<void(const std::string&)> before;
};

struct FuzzFinding {
  std::int64_t mutation = 0;
  std::string input;
  std::string what;
};

struct FuzzOutcome {
  std::int64_t accepted = 0;
  std::int64_t refused = 0;
  std::optional<FuzzFinding> finding;  // which ends the run
};

FuzzOutcome run_fuzz(const FuzzTarget& target, const FuzzRun& run);

}  // namespace headrace
