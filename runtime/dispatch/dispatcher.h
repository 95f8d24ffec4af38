// Rank 0's hand in data parallelism: which replica runs which sequence. Work goes out in small
// pieces as replicas finish what they have. When less is left than the replicas could take, it is
// spread by how fast each has been, and when one would still run long after another is done, it is
// taken from: the sequence starts over elsewhere with the tokens it has. So a slow replica never
// holds the job. Which replica computes a sequence changes nothing in its tokens.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/message_channel.h"
#include "runtime/dispatch/work_message.h"

namespace headrace {

/// To the head of another replica. Borrowed; must outlive the dispatcher.
struct ReplicaLink {
  MessageSender* work = nullptr;
  MessageReceiver* reports = nullptr;
  std::string name;  // for messages: "rank 4 on host b (replica 1)"
};

struct DispatchSettings {
  int max_outstanding = 0;  // sequences that a replica may have, running and waiting
  double stall_timeout_s = 0.0;
};

class Dispatcher {
 public:
  /// others: replicas 1, 2, ...; replica 0 is this rank's own. Without others, everything is.
  Dispatcher(std::vector<ReplicaLink> others, DispatchSettings settings);

  /// Takes sequences and stops from the host side.
  void add(std::vector<NewSequence>& sequences, const std::vector<SequenceId>& stops);

  /// Gives replica 0 its share.
  void take_own(std::vector<NewSequence>& sequences, std::vector<SequenceId>& stops);

  /// Counts what replica 0 has found.
  void note_own(const std::vector<SequenceEvent>& events);

  /// Sends work and takes reports in; true where anything came. Appends the others' events. Throws
  /// std::runtime_error naming a replica that was silent for the stall timeout.
  bool exchange(std::vector<SequenceEvent>& events);

  /// Sequences that are to move from a replica that would hold the job, or none. Their replica is
  /// told to stop them; the caller adds them again under new ids (HostSide::recall).
  std::vector<SequenceId> recall();

  /// Sends an order to all others. Orders only go up.
  void give(WorkOrder order);

  /// All others have carried the order out.
  bool all_done(WorkOrder order) const;

  /// Of the others, as last heard, in order.
  std::vector<ReplicaView> views() const;

 private:
  struct Replica {
    ReplicaLink link;
    std::deque<NewSequence> work;      // not sent yet; of replica 0, not taken yet
    std::vector<SequenceId> stops;     // likewise
    std::vector<SequenceId> assigned;  // and not ended, in order
    std::int64_t num_tokens = 0;       // sampled so far
    WorkOrder order = WorkOrder::kRun;
    bool order_sent = true;
    WorkOrder done = WorkOrder::kRun;
    std::int64_t last_sent_ns = 0;
    std::int64_t last_heard_ns = 0;
    ReplicaView view;
  };

  void assign();
  std::size_t next_replica() const;
  bool rates_are_known() const;
  double round_time(const Replica& replica, int num_sequences) const;
  void end(SequenceId id);
  void note(const SequenceEvent& event, Replica& replica);
  bool take_reports(Replica& replica, std::vector<SequenceEvent>& events);
  void send_work(Replica& replica);

  DispatchSettings settings_;
  std::vector<Replica> replicas_;  // 0 is this rank's own
  std::deque<NewSequence> pending_;
  std::unordered_map<SequenceId, std::size_t> owners_;
  std::int64_t last_recall_ns_ = 0;
  std::vector<std::byte> bytes_;
};

/// What bounds a work message: one sequence of any size, and room for many small ones.
std::size_t max_work_message_bytes(int max_model_len);

/// What bounds a report: the events of a step, which are bounded as its result is.
std::size_t max_report_message_bytes(std::size_t max_result_bytes, int num_stages);

}  // namespace headrace
