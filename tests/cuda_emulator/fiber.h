// A flow of control with a stack of its own that gives way only where it says so. It stays on the
// thread that made it.
#pragma once

#include <cstddef>
#include <memory>

namespace headrace::emulator {

/// A mapped stack with a page below it that nobody may touch.
class FiberStack {
 public:
  // Kernels have small frames; the thread sanitizer clears four times as much whenever one is
  // mapped.
  static constexpr std::size_t kBytes = std::size_t{64} << 10;

  FiberStack();  // throws std::bad_alloc
  ~FiberStack();
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;

  std::byte* bottom() const { return bottom_; }
  std::byte* top() const { return bottom_ + kBytes; }

 private:
  std::byte* bottom_;
};

class Fiber {
 public:
  /// The running thread itself, to come back to.
  Fiber();
  /// Runs entry(argument) at the first switch to it; entry must not return.
  Fiber(std::unique_ptr<FiberStack> stack, void (*entry)(void*), void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From this fiber, which is running, to `next`. Returns when somebody switches back.
  void switch_to(Fiber& next);

  struct Release {
    void* object = nullptr;
    bool in_emulator = false;  // the abandoned fiber gave way within OwnBusiness
  };
  /// From this fiber, which is running: tells the thread sanitizer that what the other one did,
  /// which never runs again, comes before what follows a tell_acquire(object).
  void release_for(Fiber& abandoned, Release release);

  /// Takes the stack for another fiber; this one never runs again.
  std::unique_ptr<FiberStack> take_stack() { return std::move(stack_); }

 private:
  static void begin();
  friend void begin_fiber();

  std::unique_ptr<FiberStack> stack_;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* stack_pointer_ = nullptr;
  // For the sanitizers: their own record, and the bounds of the stack, learnt where it is a
  // thread's.
  [[maybe_unused]] void* record_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace headrace::emulator
