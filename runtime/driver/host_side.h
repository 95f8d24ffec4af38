// The host's half of a job, in a thread of its own on rank 0: reads and parses lines ahead of the
// pipeline, detokenises what comes back, finds stop strings, keeps the journal, writes answers. The
// pipeline's thread hands it events and takes sequences from it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "kernels/span_recorder.h"
#include "runtime/driver/latency.h"
#include "runtime/job/answer_builder.h"
#include "runtime/job/input_reader.h"
#include "runtime/job/job_store.h"
#include "runtime/job/request_parser.h"
#include "runtime/schedule/scheduler.h"

namespace headrace {

/// What the host side counts, for progress and summary.
struct HostCounts {
  JobCounts job;                           // all runs together
  std::int64_t num_live_lines = 0;         // parsed, not answered
  std::int64_t num_run_lines = 0;          // finished by this run
  std::int64_t num_run_prompt_tokens = 0;  // of sequences handed to the pipeline
  std::int64_t num_run_tokens = 0;         // sampled by this run and kept
  std::int64_t num_resumed_tokens = 0;     // taken from the journal instead of being sampled
  std::int64_t num_rebuilt_tokens = 0;     // prompt and saved tokens prefilled again for them
  std::int64_t num_moved_sequences = 0;    // from one replica to another
  std::int64_t bytes_read = 0;
  std::int64_t bytes_total = 0;  // 0: unknown
  bool input_ended = false;
};

struct HostLatencies {
  LatencyDistribution first_token;  // from the sequence's admission to the scheduler's queue
  LatencyDistribution
      per_output_token;  // mean time between a sequence's tokens, one entry a sequence
  std::chrono::steady_clock::time_point earliest_token{};  // of the run; the epoch while none came
};

struct HostSettings {
  /// Sequences that may wait or run in the pipeline before reading pauses.
  int max_outstanding = 0;
  /// Of a trace, for the thread alone until it has ended; null without one.
  SpanRecorder* recorder = nullptr;
};

class HostSide {
 public:
  /// Starts the thread. store, parser and context must outlive it, and nobody else may use the
  /// store until join().
  HostSide(InputReader reader, const RequestParser& parser, const AnswerContext& context,
           JobStore& store, HostSettings settings);
  /// Stops the thread if it still runs; its answers so far stay in the store.
  ~HostSide();
  HostSide(const HostSide&) = delete;
  HostSide& operator=(const HostSide&) = delete;

  /// What the thread has for the scheduler: new sequences, and sequences that a stop string ended.
  /// Rethrows what went wrong in the thread.
  void take(std::vector<NewSequence>& sequences, std::vector<SequenceId>& stops);

  void give(std::vector<SequenceEvent> events);

  /// These sequences are to run elsewhere: each comes out of take() once more, under a new id and
  /// with the tokens it has by then. What still comes for the old ids is ignored.
  void recall(const std::vector<SequenceId>& ids);

  /// Every line of the input has its output.
  bool finished() const { return finished_.load(std::memory_order_acquire); }

  /// Makes the thread handle the events it has, write and sync everything, and end.
  void stop_and_flush();

  /// Ends the thread. After finished() only; rethrows what went wrong in it.
  void join();

  HostCounts counts() const;
  /// After join() or stop_and_flush() only.
  const HostLatencies& latencies() const { return latencies_; }

 private:
  struct LiveSequence;

  void run();
  void loop();
  bool handle_events();
  void keep_journal();
  void move(SequenceId id);
  void hand_out(NewSequence sequence, LiveSequence live);
  void handle(const SequenceEvent& event);
  void time_token(LiveSequence& sequence);
  bool read_line();
  void start(Request request, SavedTokens saved);
  void start_choice(const std::shared_ptr<AnswerBuilder>& answer, int choice,
                    const std::vector<ScoredToken>& saved);
  void fail(const InputLine& line, const ParsedLine& parsed, const LineError& error);
  void finish_if_done(const AnswerBuilder& builder);
  void publish_counts();
  void rethrow();

  InputReader reader_;
  const RequestParser& parser_;
  const AnswerContext& context_;
  JobStore& store_;
  HostSettings settings_;

  // Of the thread alone.
  std::unordered_map<SequenceId, LiveSequence> live_;
  SequenceId next_id_ = 0;
  InputLine line_;
  bool input_ended_ = false;
  HostCounts own_counts_;
  HostLatencies latencies_;
  std::vector<NewSequence> new_sequences_;
  std::vector<SequenceId> new_stops_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<SequenceEvent> inbox_;  // guarded by mutex_
  std::vector<SequenceId> recalls_;   // guarded by mutex_
  std::vector<NewSequence> outbox_;   // guarded by mutex_
  std::vector<SequenceId> stops_;     // guarded by mutex_
  HostCounts counts_;                 // guarded by mutex_
  std::exception_ptr error_;          // guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace headrace
