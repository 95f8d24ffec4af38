// One block of a launch while it runs: its threads, its barrier, the operations of its warps, its
// shared memory. All of it belongs to one thread of the process.
#pragma once

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/fiber.h"
#include "tests/cuda_emulator/turns.h"

namespace headrace::emulator {

/// Stacks that are free, and fibers that have ended but that the thread sanitizer shall remember:
/// it forgets what a thread did soon after it has gone, and with it the races between blocks.
class FiberStore {
 public:
  std::unique_ptr<FiberStack> stack();
  void give_back(std::unique_ptr<Fiber> fiber);

 private:
  std::vector<std::unique_ptr<FiberStack>> stacks_;
  std::vector<std::unique_ptr<Fiber>> ended_;
  std::size_t next_ended_ = 0;
};

struct BlockPlace {
  int x = 0;
  int y = 0;
  std::uint32_t seed = 0;
};

class Block;

struct CudaThread {
  enum class State : std::uint8_t { kReady, kAtBarrier, kInWarpOperation, kReturned };

  Block* block = nullptr;
  int index = 0;
  State state = State::kReady;
  bool gave_way = false;  // within OwnBusiness
  Site site;              // where it waits
  std::unique_ptr<Fiber> fiber;
  std::vector<std::vector<AsyncCopy>> copy_groups;  // closed ones, the oldest first
  std::vector<AsyncCopy> open_copies;

  int lane() const { return index % kLanes; }
  std::size_t warp() const { return static_cast<std::size_t>(index / kLanes); }
};

/// A warp operation under way.
struct Gathering {
  WarpOperation operation = WarpOperation::kSync;
  std::uint32_t mask = 0;
  std::uint32_t arrived = 0;
  Site site;
  WarpSlots slots;
  std::uint32_t left_to_read = 0;
};

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

struct SharedPiece {
  std::unique_ptr<std::byte, FreeDeleter> memory;
  std::size_t bytes = 0;
};

class Block {
 public:
  Block(const GridShape& shape, const BlockPlace& place, Schedule schedule,
        const std::function<void()>& body, FiberStore& store);

  /// Runs until all threads have returned. Throws EmulatorError. For the thread sanitizer every
  /// thread acquires launch_start when it begins and releases launch_end when it returns.
  void run(void* launch_start, void* launch_end);

  const GridShape& shape() const { return shape_; }
  const BlockPlace& place() const { return place_; }

  // By the running thread.
  void sync_block(CudaThread& self, Site site);
  void gather(CudaThread& self, const Deposit& deposit, WarpSlots& slots);
  void* take_shared(int index, std::size_t bytes, Site site);
  bool copy_happens_now(CudaThread& self, const AsyncCopy& copy);
  /// Inside an OwnBusiness.
  [[noreturn]] void fail(CudaThread& self, const std::string& what, Site site);

 private:
  static void thread_main(void* thread);
  void wait(CudaThread& self, CudaThread::State state, Site site);
  void give_way(CudaThread& self);
  void make_ready(CudaThread& thread);
  void returned(CudaThread& self);
  void release_barrier_if_complete();
  Gathering& join(CudaThread& self, const Deposit& deposit);
  void check_deposit(CudaThread& self, const Deposit& deposit);
  std::string deadlock_report() const;

  GridShape shape_;
  BlockPlace place_;
  const std::function<void()>& body_;
  FiberStore& store_;
  Turns turns_;
  std::minstd_rand random_;
  Fiber host_;
  std::vector<CudaThread> threads_;
  std::vector<std::vector<std::unique_ptr<Gathering>>> gatherings_;  // of each warp
  std::array<std::uint32_t, kMaxWarps> present_{};  // lanes of each warp that have not returned
  std::vector<SharedPiece> shared_;
  std::size_t shared_taken_ = 0;
  int num_alive_ = 0;
  int num_at_barrier_ = 0;
  Site barrier_site_;
  // Two in turn: with one, a fast thread's next arrival would count for a slow one's departure.
  std::unique_ptr<char[]> barrier_order_ = std::make_unique<char[]>(2 * kOrderBytes);
  int barrier_turn_ = 0;
  void* launch_start_ = nullptr;
  void* launch_end_ = nullptr;
  std::string error_;

  static constexpr int kOrderBytes = 16;  // each object has to have a place of its own
};

}  // namespace headrace::emulator
