#include "tests/cuda_emulator/emulator.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/flush_denormals.h"
#include "tests/cuda_emulator/block.h"
#include "tests/cuda_emulator/sanitizers.h"

namespace headrace::emulator {

thread_local CudaThread* current = nullptr;

namespace {

struct ThreadSettings {
  Schedule schedule = Schedule::kForward;
  unsigned seed = 0;
  std::int64_t num_launches = 0;
  FiberStore store;
};
thread_local ThreadSettings settings;

void require_shape(const GridShape& shape) {
  constexpr int kMostThreads = 1024;
  constexpr int kMostShared = 227 * 1024;
  constexpr std::int64_t kMostX = 2147483647;
  constexpr std::int64_t kMostY = 65535;
  if (shape.threads >= 1 && shape.threads <= kMostThreads && shape.shared_bytes >= 0 &&
      shape.shared_bytes <= kMostShared && shape.grid_x <= kMostX && shape.grid_y <= kMostY) {
    return;
  }
  throw EmulatorError("a launch that a GPU refuses: " + std::to_string(shape.grid_x) + " x " +
                      std::to_string(shape.grid_y) + " blocks of " + std::to_string(shape.threads) +
                      " threads with " + std::to_string(shape.shared_bytes) +
                      " bytes of shared memory");
}

// The blocks of a launch in the order of the schedule.
std::vector<std::int64_t> block_order(const GridShape& shape, std::minstd_rand& random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(shape.grid_x * shape.grid_y));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (settings.schedule == Schedule::kReverse) std::reverse(order.begin(), order.end());
  if (settings.schedule == Schedule::kRandom) std::shuffle(order.begin(), order.end(), random);
  return order;
}

// The number-th launch of a thread, under the schedule of the one that runs it.
void run_as_launch(const GridShape& shape, const std::function<void()>& body, std::int64_t number) {
  require_shape(shape);
  // Kernels flush denormals (nvcc -ftz=true).
  const FlushDenormals guard;
  std::minstd_rand random(settings.seed * 2654435761U + static_cast<unsigned>(number));
  char start = 0;
  char end = 0;
  tell_release(&start);
  const AcquireAtEnd order(&end);  // also after an error
  {
    const OwnBusiness own;
    for (const std::int64_t index : block_order(shape, random)) {
      Block block(shape,
                  {.x = static_cast<int>(index % shape.grid_x),
                   .y = static_cast<int>(index / shape.grid_x),
                   .seed = static_cast<std::uint32_t>(random())},
                  settings.schedule, body, settings.store);
      block.run(&start, &end);
    }
  }
}

std::atomic<Launcher> launcher = nullptr;

}  // namespace

ScopedSchedule::ScopedSchedule(Schedule schedule, unsigned seed)
    : schedule_before_(settings.schedule), seed_before_(settings.seed) {
  settings.schedule = schedule;
  settings.seed = seed;
}

ScopedSchedule::~ScopedSchedule() {
  settings.schedule = schedule_before_;
  settings.seed = seed_before_;
}

std::int64_t num_launches() {
  return settings.num_launches;
}

void run(const GridShape& shape, const std::function<void()>& body) {
  if (shape.grid_x == 0 || shape.grid_y == 0) return;
  ++settings.num_launches;
  run_as_launch(shape, body, settings.num_launches);
}

void set_launcher(Launcher chosen) {
  launcher = chosen;
}

void launch(const GridShape& shape, Stream stream, std::function<void()> body) {
  if (shape.grid_x == 0 || shape.grid_y == 0) return;
  ++settings.num_launches;
  std::function<void()> kernel = [shape, body = std::move(body), number = settings.num_launches,
                                  schedule = settings.schedule, seed = settings.seed] {
    const ScopedSchedule same(schedule, seed);
    run_as_launch(shape, body, number);
  };
  const Launcher chosen = launcher;
  if (chosen == nullptr) {
    kernel();
  } else {
    chosen(stream, std::move(kernel));
  }
}

int thread_index() {
  return current->index;
}
int block_threads() {
  return current->block->shape().threads;
}
int block_x() {
  return current->block->place().x;
}
int block_y() {
  return current->block->place().y;
}

void sync_block(Site site) {
  current->block->sync_block(*current, site);
}

void gather(const Deposit& deposit, WarpSlots& slots) {
  current->block->gather(*current, deposit, slots);
}

void* take_shared(int index, std::size_t bytes, Site site) {
  return current->block->take_shared(index, bytes, site);
}

bool copy_happens_now(const AsyncCopy& copy) {
  return current->block->copy_happens_now(*current, copy);
}

void close_copy_group() {
  const OwnBusiness own;
  current->copy_groups.push_back(std::move(current->open_copies));
  current->open_copies.clear();
}

bool next_due_copy(int pending, AsyncCopy& copy) {
  const OwnBusiness own;
  auto& groups = current->copy_groups;
  while (groups.size() > static_cast<std::size_t>(pending)) {
    if (groups.front().empty()) {
      groups.erase(groups.begin());
      continue;
    }
    copy = groups.front().back();
    groups.front().pop_back();
    return true;
  }
  return false;
}

void fail(const char* what, Site site) {
  const OwnBusiness own;
  current->block->fail(*current, what, site);
}

}  // namespace headrace::emulator
