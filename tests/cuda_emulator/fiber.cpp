#include "tests/cuda_emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#include "tests/cuda_emulator/sanitizers.h"

// Saves what a call must preserve on this stack and goes on from another. Written out because the C
// library's swapcontext() asks the kernel for the signal mask every time.
asm(R"(
.text
.p2align 4
.type headrace_switch_stack, @function
headrace_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size headrace_switch_stack, . - headrace_switch_stack
)");
extern "C" void headrace_switch_stack(void** save, void* load);

namespace headrace::emulator {
namespace {

constexpr std::size_t kGuardBytes = 4096;
constexpr int kSavedRegisters = 6;
#if defined(HEADRACE_EMULATE_TSAN)
constexpr unsigned kWithoutOrder = 1;  // of a switch
#endif

// Who runs, and who ran before: a new fiber has to find itself.
thread_local Fiber* running = nullptr;
thread_local Fiber* previous = nullptr;

}  // namespace

FiberStack::FiberStack() {
  void* mapped = mmap(nullptr, kGuardBytes + kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  mprotect(mapped, kGuardBytes, PROT_NONE);
  bottom_ = static_cast<std::byte*>(mapped) + kGuardBytes;
}

FiberStack::~FiberStack() {
  munmap(bottom_ - kGuardBytes, kGuardBytes + kBytes);
}

void begin_fiber() {
  Fiber::begin();
}

Fiber::Fiber() {
#if defined(HEADRACE_EMULATE_TSAN)
  record_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(std::unique_ptr<FiberStack> stack, void (*entry)(void*), void* argument)
    : stack_(std::move(stack)), entry_(entry), argument_(argument) {
  bottom_ = stack_->bottom();
  bytes_ = FiberStack::kBytes;
  // As if begin_fiber() had been called: its return address, then the registers that a switch pops.
  auto* top = reinterpret_cast<std::uintptr_t*>(stack_->top());
  top[-1] = 0;
  top[-2] = reinterpret_cast<std::uintptr_t>(&begin_fiber);
  for (int i = 0; i < kSavedRegisters; ++i) top[-3 - i] = 0;
  stack_pointer_ = top - 2 - kSavedRegisters;
#if defined(HEADRACE_EMULATE_TSAN)
  record_ = __tsan_create_fiber(0);
#elif defined(HEADRACE_EMULATE_ASAN)
  __asan_unpoison_memory_region(stack_->bottom(), FiberStack::kBytes);  // of frames left behind
#endif
}

Fiber::~Fiber() {
#if defined(HEADRACE_EMULATE_TSAN)
  if (entry_ != nullptr) __tsan_destroy_fiber(record_);
#endif
}

void Fiber::switch_to(Fiber& next) {
  previous = this;
  running = &next;
#if defined(HEADRACE_EMULATE_TSAN)
  __tsan_switch_to_fiber(next.record_, kWithoutOrder);
#elif defined(HEADRACE_EMULATE_ASAN)
  __sanitizer_start_switch_fiber(&record_, next.bottom_, next.bytes_);
#endif
  headrace_switch_stack(&stack_pointer_, next.stack_pointer_);
#if defined(HEADRACE_EMULATE_ASAN)
  __sanitizer_finish_switch_fiber(record_, nullptr, nullptr);
#endif
}

void Fiber::release_for([[maybe_unused]] Fiber& abandoned, [[maybe_unused]] Release release) {
#if defined(HEADRACE_EMULATE_TSAN)
  // Only the sanitizer's records change places, not the stacks.
  __tsan_switch_to_fiber(abandoned.record_, kWithoutOrder);
  if (release.in_emulator) OwnBusiness::end();
  __tsan_release(release.object);
  __tsan_switch_to_fiber(record_, kWithoutOrder);
#endif
}

void Fiber::begin() {
#if defined(HEADRACE_EMULATE_ASAN)
  // Whoever comes first comes from the thread itself, whose stack's bounds are known only now.
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  if (previous->bottom_ == nullptr) {
    previous->bottom_ = bottom;
    previous->bytes_ = bytes;
  }
#endif
  running->entry_(running->argument_);
}

}  // namespace headrace::emulator
