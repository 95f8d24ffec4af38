// Runs kernels for the GPU on the CPU, to find their mistakes. A CUDA thread is a fiber; a launch
// runs its blocks one after another on the calling thread, each until all its threads have
// returned. The twins of kernels/cuda/simt.h and ptx.h under device/ stand on what is declared
// here.
//
// What it reports, as EmulatorError from the launch: a barrier that threads reach in different
// places, a warp operation whose lanes do not agree, lanes that are not there, a deadlock with
// everybody's place, shared memory beyond what was asked for, copies that nobody waited for, launch
// shapes that a GPU refuses. Schedules are chosen so that missing barriers give wrong values; fresh
// shared memory holds NaN. With the thread sanitizer every CUDA thread counts as a thread, and
// barriers order what a GPU's barriers order, no more; with the address sanitizer every piece of
// shared memory has its own bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

#include "kernels/cuda/stream.h"

namespace headrace::emulator {

struct EmulatorError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whose turn it is. kRandom: half of the blocks pick any thread and leave some for last, half run
/// warps by random priorities that change now and then, which is what brings out a fast warp that
/// overtakes a slow one by a barrier; blocks come in random order.
enum class Schedule : std::uint8_t { kForward, kReverse, kRandom };

/// Holds for launches of the calling thread while the object lives.
class ScopedSchedule {
 public:
  explicit ScopedSchedule(Schedule schedule, unsigned seed = 0);
  ~ScopedSchedule();
  ScopedSchedule(const ScopedSchedule&) = delete;
  ScopedSchedule& operator=(const ScopedSchedule&) = delete;

 private:
  Schedule schedule_before_;
  unsigned seed_before_;
};

struct GridShape {
  std::int64_t grid_x = 0;
  std::int64_t grid_y = 1;
  int threads = 0;
  int shared_bytes = 0;
};

/// Runs body once for every CUDA thread. Throws EmulatorError.
void run(const GridShape& shape, const std::function<void()>& body);

/// The same as a launch on a stream: under the calling thread's schedule, at once, or whenever the
/// launcher runs it, on any thread.
void launch(const GridShape& shape, Stream stream, std::function<void()> body);

/// Who runs launches, in the whole process; by default whoever launches. A fake CUDA queues them.
using Launcher = void (*)(Stream stream, std::function<void()> kernel);
void set_launcher(Launcher launcher);

/// Launches of this thread, and what it has run itself: a test that nothing ran would prove
/// nothing.
std::int64_t num_launches();

// What kernels call, through the twins. Only inside run().

/// Where a kernel called.
struct Site {
  const char* file = "";
  int line = 0;
};

int thread_index();
int block_threads();
int block_x();
int block_y();

void sync_block(Site site);

inline constexpr int kLanes = 32;
inline constexpr int kSlotBytes = 32;

/// What every lane brought to a warp operation.
struct WarpSlots {
  std::byte bytes[kLanes][kSlotBytes];
};

enum class WarpOperation : std::uint8_t { kSync, kShuffle, kMatrixLoad, kMultiply };

struct Deposit {
  WarpOperation operation = WarpOperation::kSync;
  std::uint32_t mask = 0;
  const void* data = nullptr;
  std::size_t bytes = 0;
  int wanted_lane = -1;  // the only one whose bytes are wanted; -1 for all
  Site site;
};

/// Waits until all lanes of the mask have brought their bytes, and fills in those of every lane of
/// the mask that is wanted. Orders memory only for kSync.
void gather(const Deposit& deposit, WarpSlots& slots);

/// The index-th piece of shared memory of the block, made by whoever asks first.
void* take_shared(int index, std::size_t bytes, Site site);

/// An asynchronous copy of 16 bytes, of which `bytes` are read.
struct AsyncCopy {
  void* shared = nullptr;
  const void* global = nullptr;
  int bytes = 0;
};

/// True where the copy is to be done at once; otherwise next_due_copy() gives it back.
bool copy_happens_now(const AsyncCopy& copy);
void close_copy_group();
/// The next copy of a group that may no longer be unfinished when `pending` may; false for none.
bool next_due_copy(int pending, AsyncCopy& copy);

/// Ends the launch with a message; `site` is named.
[[noreturn]] void fail(const char* what, Site site);

}  // namespace headrace::emulator
