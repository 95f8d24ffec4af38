// What rank 0 and the heads of the other replicas tell each other: work in one direction, events in
// the other. Little-endian, pieces as in step messages (runtime/schedule/wire.h); both ends are the
// same program, so there are no versions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/pipeline/replica_head.h"
#include "runtime/pipeline/stage_times.h"
#include "runtime/schedule/scheduler.h"

namespace headrace {

/// What a replica is to do with the sequences it has.
enum class WorkOrder : std::uint8_t {
  kRun,
  kDrain,   // start nothing more, report what comes back
  kFinish,  // nothing is wanted any more: end the pipeline
};

struct WorkMessage {
  WorkOrder order = WorkOrder::kRun;
  std::vector<SequenceId> stops;
  std::vector<NewSequence> sequences;
};

/// A replica's counts, as last heard.
struct ReplicaView {
  SchedulerStats scheduler;
  HeadCounters head;
  std::vector<StageTimes> times;
};

struct ReportMessage {
  /// The order that has been carried out: kRun at first, kDrain when no step is in flight.
  WorkOrder done = WorkOrder::kRun;
  ReplicaView view;
  std::vector<SequenceEvent> events;
};

std::size_t encoded_bytes(const NewSequence& sequence);
std::size_t encoded_bytes(const SequenceEvent& event);
/// Of a message with no sequences or events.
std::size_t work_header_bytes(std::size_t num_stops);
std::size_t report_header_bytes(std::size_t num_stages);

void encode(const WorkMessage& message, std::vector<std::byte>& out);
void encode(const ReportMessage& message, std::vector<std::byte>& out);
/// Both throw std::runtime_error naming the field that does not fit.
WorkMessage decode_work(std::span<const std::byte> bytes);
ReportMessage decode_report_message(std::span<const std::byte> bytes);

}  // namespace headrace
