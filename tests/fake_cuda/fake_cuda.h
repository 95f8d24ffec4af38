// A CUDA runtime, a cuBLASLt and an NCCL in host memory, compiled against the real headers and
// linked in place of the real libraries. This header is for tests that set it up; the backend sees
// CUDA's own.
//
// What is queued runs at once (kInline), or each stream is a thread that works off its queue, after
// random delays, or late (kThreads). Device memory, pinned and pageable host memory are told apart;
// copies beyond an allocation, freed or foreign pointers, the default stream and groups of NCCL
// calls that do not fit each other are refused with a line on standard error. Errors can be asked
// for. To the thread sanitizer a stream is a thread, with no order but CUDA's (sanitizers.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::fake_cuda {

enum class Mode : std::uint8_t { kInline, kThreads };

/// A call that fails: the nth of that name from now on. A function of CUDA or NCCL returns an
/// error; "kernel" and "copy" fail while they run, which spoils their device for good; "nccl" is an
/// operation of NCCL that fails while it runs. Or the process stops there for good, as one that
/// hangs.
struct Fault {
  std::string name;
  int nth = 1;
  bool stops = false;
};

struct Settings {
  Mode mode = Mode::kInline;
  std::int64_t delay_us = 0;  // an operation begins after a random part of that
  std::int64_t late_us = 0;   // ... or not before so long after it was queued
  std::uint32_t seed = 0;
  int num_devices = 1;
  std::size_t device_bytes = std::size_t{1} << 36;
  // cuBLASLt's algorithms in the order of its heuristics, a letter each: s, steady; m, a row
  // depends on how many there are; p, it depends on its place; o, like m, and a row alone is
  // refused.
  std::string algorithms = "s";
  bool serial_nccl = false;  // NCCL's operations run one after another in the order of their calls
  std::vector<Fault> faults = {};
};

/// From the environment: FAKE_CUDA_MODE=inline|threads, FAKE_CUDA_DELAY_US, FAKE_CUDA_LATE_US,
/// FAKE_CUDA_SEED, FAKE_CUDA_DEVICES, FAKE_CUDA_BYTES, FAKE_CUBLASLT_ALGORITHMS,
/// FAKE_NCCL_SERIAL=1, FAKE_CUDA_FAIL=NAME:N,... and FAKE_CUDA_STOP likewise. Throws
/// std::invalid_argument. (FAKE_NCCL_MISSING=1: as if there were no library of that name.)
Settings settings_of_environment();

/// Exchanges the settings, which begin as the environment's, forgets errors and counts calls anew.
/// No stream may be left.
void configure(const Settings& settings);

/// Calls so far of a function, "kernel", "copy" or "nccl".
int num_calls(std::string_view name);

/// The last thing that was refused; empty for none since configure().
std::string last_report();

/// Allocations that are alive, of both kinds, on all devices.
int num_allocations();

}  // namespace headrace::fake_cuda
