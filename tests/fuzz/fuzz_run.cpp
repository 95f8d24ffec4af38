#include "tests/fuzz/fuzz_run.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>

#include "tests/fuzz/largest_allocation.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLongest_s = 20.0;  // with sanitizers on a busy machine

// What is wrong with a run of the target that came back; empty: nothing.
std::string complaint(const FuzzTarget& target, const std::string& input, Clock::time_point begin) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (seconds > kLongest_s) return fmt::format("took {:.1f} s", seconds);
  const std::size_t bytes = largest_allocation();
  if (bytes > target.buffer_bytes + target.bytes_per_byte * input.size()) {
    return fmt::format("asked for {} bytes at once for an input of {}", bytes, input.size());
  }
  return {};
}

std::string run_one(const FuzzTarget& target, const std::string& input, FuzzOutcome& outcome) {
  reset_largest_allocation();
  const Clock::time_point begin = Clock::now();
  try {
    ++(target.accepts(input) ? outcome.accepted : outcome.refused);
  } catch (const std::exception& error) {
    return error.what();
  }
  return complaint(target, input, begin);
}

}  // namespace

FuzzOutcome run_fuzz(const FuzzTarget& target, const FuzzRun& run) {
  Mutator mutator(target.material, run.seed);
  FuzzOutcome outcome;
  for (std::int64_t i = 0; i < run.count; ++i) {
    const std::string input = mutator.next();
    if (run.before) run.before(input);
    const std::string what = run_one(target, input, outcome);
    if (!what.empty()) {
      outcome.finding = {.mutation = i, .input = input, .what = what};
      break;
    }
  }
  return outcome;
}

}  // namespace headrace
