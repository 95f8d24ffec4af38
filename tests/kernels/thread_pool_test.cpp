#include "kernels/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace headrace {
namespace {

TEST(ThreadPool, EveryTaskRunsOnceWhateverTheNumbers) {
  for (const int threads : {1, 2, 3, 5}) {
    const auto pool = make_thread_pool(threads);
    EXPECT_EQ(pool->num_threads(), threads);
    for (int tasks = 0; tasks < 40; ++tasks) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      pool->parallel_for(tasks, [&](int i) { runs[static_cast<std::size_t>(i)] += 1; });
      for (const auto& count : runs) ASSERT_EQ(count, 1) << threads << " threads, " << tasks;
    }
  }
}

TEST(ThreadPool, TasksKnowWhichThreadRunsThem) {
  const auto pool = make_thread_pool(3);
  std::array<std::atomic<int>, 3> running{};
  const auto caller = std::this_thread::get_id();
  for (int round = 0; round < 200; ++round) {
    pool->parallel_for(20, [&](int) {
      const int thread = pool->thread_index();
      ASSERT_TRUE(thread >= 0 && thread < 3);
      EXPECT_EQ(thread == 0, std::this_thread::get_id() == caller);
      EXPECT_EQ(running[static_cast<std::size_t>(thread)]++, 0);
      running[static_cast<std::size_t>(thread)]--;
    });
  }
}

TEST(ThreadPool, WhatTasksWroteIsVisibleAfterwards) {
  const auto pool = make_thread_pool(3);
  std::vector<int> values(64);
  for (int round = 0; round < 3000; ++round) {
    pool->parallel_for(64, [&](int i) { values[static_cast<std::size_t>(i)] += i; });
  }
  for (int i = 0; i < 64; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], 3000 * i);
}

TEST(ThreadPool, AJobThatIsLongerThanTheLastIsNotStartedEarly) {
  // Workers still look at the last job while the next one is being written: jobs that grow, one
  // right after the other, with threads fighting for cores.
  const auto pool = make_thread_pool(4);
  std::array<std::atomic<int>, 8> runs{};
  for (int round = 0; round < 4000; ++round) {
    for (int tasks = 2; tasks <= 8; ++tasks) {
      pool->parallel_for(tasks, [&](int i) {
        // Long enough for the workers to take part, uneven enough to end at any time.
        for (int spin = 50 * ((round + i) % 8); spin > 0; --spin) {
          asm volatile("");
        }
        runs[static_cast<std::size_t>(i)] += 1;
      });
    }
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i], 4000 * (i < 2 ? 7 : 8 - static_cast<int>(i))) << i;
  }
}

TEST(ThreadPool, SleepingWorkersWakeForTheNextJob) {
  const auto pool = make_thread_pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // far longer than workers watch
    std::atomic<int> arrived{0};
    // Each task waits for the others, so all three threads have to take part.
    pool->parallel_for(3, [&](int) {
      arrived += 1;
      while (arrived < 3) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 3);
  }
}

// A worker that starts, or looks for work, just when the pool ends must not go to sleep for good.
TEST(ThreadPool, EndsWhateverItsWorkersAreAboutToDo) {
  for (int round = 0; round < 4000; ++round) {
    const auto pool = make_thread_pool(3);
    if (round % 2 == 0) pool->parallel_for(3, [](int) {});
  }
}

TEST(ThreadPool, OneThreadRunsTasksInOrderOnTheCaller) {
  const auto pool = make_thread_pool(1);
  const auto caller = std::this_thread::get_id();
  std::vector<int> order;
  pool->parallel_for(5, [&](int i) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(ThreadPool, PollRunsOnTheCallerWhileTasksRunAndNotTooOften) {
  for (const int threads : {1, 2}) {
    const auto pool = make_thread_pool(threads);
    const auto caller = std::this_thread::get_id();
    int polls = 0;
    pool->set_poll([&] {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      ++polls;
    });
    const auto begin = std::chrono::steady_clock::now();
    pool->parallel_for(4000, [](int) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(2);
      while (std::chrono::steady_clock::now() < until) {
      }
    });
    const auto taken = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(polls, 2);
    EXPECT_LE(polls, taken / std::chrono::microseconds(50) + 1);
    pool->set_poll({});
    const int before = polls;
    pool->parallel_for(100, [](int) {});
    EXPECT_EQ(polls, before);
  }
}

TEST(ThreadPool, NoThreadsIsAnError) {
  EXPECT_THROW(make_thread_pool(0), std::invalid_argument);
  EXPECT_THROW(make_thread_pool(-2), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
