#include "runtime/driver/job_loop.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "comm/waiting.h"

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
  Loop(LoopParts parts, const LoopSettings& settings)
      : host_(parts.host),
        dispatcher_(parts.dispatcher),
        scheduler_(parts.scheduler),
        head_(parts.head),
        settings_(settings) {}

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
        end_pipelines();
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
    dispatcher_.add(sequences_, stops_);
    const std::vector<SequenceId> recalled = dispatcher_.recall();
    if (!recalled.empty()) host_.recall(recalled);
    stops_.clear();
    dispatcher_.take_own(sequences_, stops_);
    for (const SequenceId id : stops_) scheduler_.stop(id);
    for (NewSequence& sequence : sequences_) scheduler_.add_checked(std::move(sequence));
  }

  bool take_results() {
    std::vector<SequenceEvent> events;
    bool worked = false;
    while (head_.take_result(events)) worked = true;
    dispatcher_.note_own(events);
    worked = dispatcher_.exchange(events) || worked;
    if (!events.empty()) host_.give(std::move(events));
    return worked;
  }

  bool is_drained() const {
    return head_.num_in_flight() == 0 && dispatcher_.all_done(WorkOrder::kDrain);
  }

  LoopEnd drain() {
    const Clock::time_point start = Clock::now();
    dispatcher_.give(WorkOrder::kDrain);
    while (!is_drained() && seconds_since(start) < kDrain_s) {
      if (!take_results()) head_.wait();
    }
    take_results();
    const bool drained = is_drained();
    host_.stop_and_flush();
    if (!drained) return LoopEnd::kStoppedInFlight;
    end_pipelines();
    return LoopEnd::kStopped;
  }

  // The other replicas end theirs while this one's last step is on its way.
  void end_pipelines() {
    dispatcher_.give(WorkOrder::kFinish);
    std::vector<SequenceEvent> unwanted;
    dispatcher_.exchange(unwanted);
    head_.finish();
    while (!dispatcher_.all_done(WorkOrder::kFinish)) {
      if (!dispatcher_.exchange(unwanted)) pause_politely(kPauseNs);
    }
  }

  // Long enough to give the core away.
  static constexpr std::int64_t kPauseNs = 1'000'000;

  HostSide& host_;
  Dispatcher& dispatcher_;
  Scheduler& scheduler_;
  ReplicaHead& head_;
  const LoopSettings& settings_;
  const Clock::time_point start_ = Clock::now();
  std::vector<NewSequence> sequences_;
  std::vector<SequenceId> stops_;
};

}  // namespace

LoopEnd run_job_loop(LoopParts parts, const LoopSettings& settings) {
  return Loop(parts, settings).run();
}

}  // namespace headrace
