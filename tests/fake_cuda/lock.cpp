#include "tests/fake_cuda/lock.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace headrace::fake_cuda {
namespace {

constexpr long kNapNs = 200000;

// Plain words with the compiler's own atomics, which stay inline.
std::uint32_t lock_word = 0;
std::uint32_t bell = 0;

}  // namespace

Locked::Locked() {
  while (__atomic_exchange_n(&lock_word, 1U, __ATOMIC_ACQUIRE) != 0) sched_yield();
}

Locked::~Locked() {
  __atomic_store_n(&lock_word, 0U, __ATOMIC_RELEASE);
}

std::uint32_t wake_count() {
  return __atomic_load_n(&bell, __ATOMIC_ACQUIRE);
}

void wake_all() {
  __atomic_add_fetch(&bell, 1U, __ATOMIC_ACQ_REL);
  constexpr int kEverybody = 1 << 30;
  syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, kEverybody, nullptr, nullptr, 0);
}

void nap(std::uint32_t since) {
  const timespec most{.tv_sec = 0, .tv_nsec = kNapNs};
  syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, since, &most, nullptr, 0);
}

std::int64_t now_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
}

void sleep_us(std::int64_t us) {
  const timespec time{.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
  nanosleep(&time, nullptr);
}

}  // namespace headrace::fake_cuda
