// How the CPU backend hands its tasks to the pool.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/flush_denormals.h"
#include "kernels/thread_pool.h"

namespace headrace {

/// task(0) .. task(num_tasks - 1) on the pool, denormals flushed. The pool gets it by reference,
/// because a std::function of a lambda that captures more than a pointer or two would allocate.
template <class Task>
void run_flushed(ThreadPool& pool, std::int64_t num_tasks, const Task& task) {
  const auto flushed = [&task](int i) {
    const FlushDenormals guard;
    task(static_cast<std::int64_t>(i));
  };
  pool.parallel_for(static_cast<int>(num_tasks), std::cref(flushed));
}

}  // namespace headrace
