#include "kernels/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPollInterval = std::chrono::microseconds(50);

// A worker that finds nothing to do first watches for work (the next operator of the same layer
// comes within microseconds), then gives its core to whoever wants it between looks, then sleeps: a
// rank that waits for its neighbour must not take cores from ranks that compute.
constexpr int kWatchRounds = 200;  // about 10 us with the processor's pause
constexpr int kYieldRounds = 200;  // about 50 us, less where others want the core

// Of the workers of whatever pool; every other thread only ever calls one.
thread_local int own_index = 0;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Own threads instead of OpenMP's: libgomp either spins for good or sleeps at once (tens of
// microseconds an operator), offers no place to poll MPI, and knows nothing of other ranks on the
// node.
//
// A job is a ticket: 32 bits of job number and 32 bits of tasks not yet taken. A thread takes a
// task by counting down the ticket it has read. That succeeds only if the ticket is still the same,
// and a ticket with tasks left is only replaced after they were taken and finished: so whatever the
// thread read about the job in between belongs to that job, and a thread that comes late can
// neither run a task twice nor hold up the next job. Whether a task is left must be read from the
// ticket alone.
class TicketPool final : public ThreadPool {
 public:
  explicit TicketPool(int num_threads) {
    for (int i = 1; i < num_threads; ++i) {
      workers_.emplace_back([this, i] { work(i); });
    }
  }

  ~TicketPool() override {
    stop_.store(true);
    wake_.fetch_add(1);
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  int num_threads() const override { return static_cast<int>(workers_.size()) + 1; }

  int thread_index() const override { return own_index; }

  void set_poll(std::function<void()> poll) override { poll_ = std::move(poll); }

  void parallel_for(int num_tasks, const std::function<void(int)>& task) override {
    if (workers_.empty() || num_tasks <= 1) {
      for (int i = 0; i < num_tasks; ++i) {
        task(i);
        poll_when_due();
      }
      return;
    }
    publish(num_tasks, task);
    while (run_one_task()) poll_when_due();
    for (int round = 0; finished_.load(std::memory_order_acquire) != num_tasks; ++round) {
      if (round < kWatchRounds) {
        pause_briefly();
      } else {
        std::this_thread::yield();
      }
      poll_when_due();
    }
  }

 private:
  void publish(int num_tasks, const std::function<void(int)>& task) {
    finished_.store(0, std::memory_order_relaxed);
    num_tasks_.store(num_tasks, std::memory_order_relaxed);
    task_.store(&task, std::memory_order_relaxed);
    ++job_;
    ticket_.store(std::uint64_t{job_} << 32 | static_cast<std::uint32_t>(num_tasks),
                  std::memory_order_release);
    wake_.fetch_add(1);
    wake_.notify_all();
  }

  // Takes one task of the current job and runs it; false when none is left.
  bool run_one_task() {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (true) {
      const auto left = static_cast<std::uint32_t>(ticket);
      if (left == 0) return false;
      const std::function<void(int)>* task = task_.load(std::memory_order_relaxed);
      const int index = num_tasks_.load(std::memory_order_relaxed) - static_cast<int>(left);
      if (ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        (*task)(index);
        finished_.fetch_add(1, std::memory_order_release);
        return true;
      }
    }
  }

  void work(int index) {
    own_index = index;
    while (true) {
      // Before the look at stop_: whoever sees no end here waits for a change after this one.
      const std::uint32_t seen = wake_.load();
      if (stop_.load()) return;
      while (run_one_task()) {
      }
      wait_for_change(seen);
    }
  }

  void wait_for_change(std::uint32_t seen) {
    for (int round = 0; round < kWatchRounds + kYieldRounds; ++round) {
      if (wake_.load(std::memory_order_relaxed) != seen) return;
      if (round < kWatchRounds) {
        pause_briefly();
      } else {
        std::this_thread::yield();
      }
    }
    wake_.wait(seen);
  }

  void poll_when_due() {
    if (!poll_) return;
    const Clock::time_point now = Clock::now();
    if (now - last_poll_ < kPollInterval) return;
    last_poll_ = now;
    poll_();
  }

  std::vector<std::thread> workers_;
  std::function<void()> poll_;
  Clock::time_point last_poll_{};
  std::uint32_t job_ = 0;
  std::atomic<bool> stop_{false};

  // Each on a line of its own: all threads write them.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<int> finished_{0};
  alignas(64) std::atomic<std::uint32_t> wake_{0};
  alignas(64) std::atomic<const std::function<void(int)>*> task_{nullptr};
  std::atomic<int> num_tasks_{0};
};

}  // namespace

std::unique_ptr<ThreadPool> make_thread_pool(int num_threads) {
  if (num_threads < 1) {
    throw std::invalid_argument("thread pool: " + std::to_string(num_threads) +
                                " threads; at least 1 is needed");
  }
  return std::make_unique<TicketPool>(num_threads);
}

}  // namespace headrace
