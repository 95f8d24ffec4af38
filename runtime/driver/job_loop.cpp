#include "runtime/driver/job_loop.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// How long a stopping job waits for steps in flight: launchers kill about 2 s after SIGTERM, and
// the journal still has to be written and synced.
constexpr double kDrain_s = 0.5;

class Loop {
 public:
  Loop(HostSide& host, Scheduler& scheduler, ReplicaHead& head, const LoopSettings& settings)
      : host_(host), scheduler_(scheduler), head_(head), settings_(settings) {}

  LoopEnd run() {
    for (;;) {
      if (settings_.stop_requested && settings_.stop_requested() != 0) return drain();
      take_in();
      bool worked = take_results();
      worked = head_.start_step() || worked;
      settings_.on_tick(seconds_since(start_));
      if (worked) continue;
      if (host_.finished()) {
        host_.join();
        return LoopEnd::kFinished;
      }
      head_.wait();
    }
  }

 private:
  void take_in() {
    sequences_.clear();
    stops_.clear();
    host_.take(sequences_, stops_);
    for (const SequenceId id : stops_) scheduler_.stop(id);
    for (NewSequence& sequence : sequences_) {
      const std::string length = std::to_string(sequence.tokens.size());
      if (!scheduler_.add(std::move(sequence))) {
        throw std::logic_error("a sequence of " + length +
                               " tokens passed the parser but can never be scheduled");
      }
    }
  }

  bool take_results() {
    std::vector<SequenceEvent> events;
    bool worked = false;
    while (head_.take_result(events)) worked = true;
    if (!events.empty()) host_.give(std::move(events));
    return worked;
  }

  LoopEnd drain() {
    const Clock::time_point start = Clock::now();
    while (head_.num_in_flight() > 0 && seconds_since(start) < kDrain_s) {
      if (!take_results()) head_.wait();
    }
    take_results();
    host_.stop_and_flush();
    return head_.num_in_flight() == 0 ? LoopEnd::kStopped : LoopEnd::kStoppedInFlight;
  }

  HostSide& host_;
  Scheduler& scheduler_;
  ReplicaHead& head_;
  const LoopSettings& settings_;
  const Clock::time_point start_ = Clock::now();
  std::vector<NewSequence> sequences_;
  std::vector<SequenceId> stops_;
};

}  // namespace

LoopEnd run_job_loop(HostSide& host, Scheduler& scheduler, ReplicaHead& head,
                     const LoopSettings& settings) {
  return Loop(host, scheduler, head, settings).run();
}

}  // namespace headrace
