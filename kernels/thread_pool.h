// The one interface behind which compute threads live. A backend splits an operator into tasks
// whose results do not depend on who runs them or in which order.
#pragma once

#include <functional>
#include <memory>

namespace headrace {

class ThreadPool {
 public:
  virtual ~ThreadPool() = default;

  /// Threads that run tasks, the calling thread included.
  virtual int num_threads() const = 0;

  /// Runs task(0) .. task(num_tasks - 1), each once, and returns when all are done. Only the thread
  /// that made the pool may call it; tasks must not throw and must not call it.
  virtual void parallel_for(int num_tasks, const std::function<void(int)>& task) = 0;

  /// In a task: which of the num_threads() threads runs it, 0 for the calling one.
  virtual int thread_index() const = 0;

  /// Called on the calling thread between its own tasks, at most about every 50 microseconds: this
  /// is where MPI makes progress while the stage computes. Empty for none.
  virtual void set_poll(std::function<void()> poll) = 0;
};

/// num_threads >= 1, throws std::invalid_argument otherwise.
std::unique_ptr<ThreadPool> make_thread_pool(int num_threads);

}  // namespace headrace
